//! Allocations: owned blocks of device memory, and what one can hold instead of owning.

use std::fmt;

use super::slot::Slot;
use super::tag::Tag;
use super::{FlexAllocator, FreeError, VirtualAddress};
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::policy::Kind;
use crate::sync::Arc;

/// A block of device memory that belongs to whoever has this. Dropping it frees the block, from any
/// thread; it can be neither copied nor freed twice, and it keeps its region alive.
///
/// It names its block, not a place: if compaction moves the block, [`address`](Self::address)
/// answers with the new place.
pub struct Allocation {
    slot: Arc<Slot>,
    key: BlockKey,
    /// Whether dropping this frees the block.
    owns: bool,
}

/// Names an allocation without owning it, for those who cannot hold a Rust value: see
/// [`Allocation::into_token`]. A token whose block was freed is recognised, even after the block's
/// place was used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AllocationToken {
    pub(super) slot: usize,
    pub(super) key: BlockKey,
}

impl AllocationToken {
    /// The token as two numbers.
    pub fn to_parts(self) -> (u64, u64) {
        (self.slot as u64, self.key.to_bits())
    }

    /// The token that two numbers stand for, whoever made them up: it is checked when it is used.
    pub fn from_parts(slot: u64, key: u64) -> Self {
        Self { slot: usize::try_from(slot).unwrap_or(usize::MAX), key: BlockKey::from_bits(key) }
    }
}

impl Allocation {
    pub(super) fn new(slot: Arc<Slot>, key: BlockKey) -> Self {
        Self { slot, key, owns: true }
    }

    /// Where the block is now. For as long as that must stay so, [`pin`](Self::pin) it.
    pub fn address(&self) -> VirtualAddress {
        self.find().0
    }

    /// The block's length, rounded to the granule.
    pub fn size(&self) -> Bytes {
        self.find().1.size
    }

    /// The bytes that were asked for.
    pub fn requested(&self) -> Bytes {
        self.find().1.requested
    }

    /// What the block is for.
    pub fn kind(&self) -> Kind {
        Tag::from_bits(self.find().1.tag).kind()
    }

    /// Notes that `stream` uses the block too: once freed, it is used again only when that stream
    /// has passed the point that it is at then.
    pub fn record_stream(&self, stream: u32) {
        self.at_place(|slot, key| slot.record_stream(key, stream));
    }

    /// Keeps the block where it is, and live even if this is dropped, for as long as the pin lives.
    pub fn pin(&self) -> Pin {
        self.at_place(|slot, key| {
            slot.pin(key)?;
            let (address, block) = slot.find(key).expect("a pinned block is live");
            Ok(Pin { slot: Arc::clone(slot), key, address, size: block.size })
        })
    }

    /// Gives up ownership without freeing: the block is then freed by its address
    /// ([`FlexAllocator::deallocate`](super::FlexAllocator::deallocate)).
    pub fn leak(self) -> VirtualAddress {
        let address = self.address();
        self.into_token();
        address
    }

    /// Gives up ownership without freeing: the block is then freed by this token
    /// ([`FlexAllocator::free_token`](super::FlexAllocator::free_token)), or owned again
    /// ([`FlexAllocator::adopt`](super::FlexAllocator::adopt)).
    pub fn into_token(mut self) -> AllocationToken {
        self.at_place(|slot, key| slot.set_leaked(key, true));
        self.owns = false;
        // The place as the handle knows it: where the block has moved since is known elsewhere.
        AllocationToken { slot: self.slot.number, key: self.key }
    }

    fn find(&self) -> (VirtualAddress, Block) {
        self.at_place(|slot, key| slot.find(key).ok_or(FreeError::Stale))
    }

    /// Does something with the block where it is now.
    fn at_place<T>(&self, act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>) -> T {
        at_place(&self.slot, self.key, act).expect("a handle's block is live")
    }
}

/// Does something with the block of a handle where it is now: if compaction moves it meanwhile, once
/// more where it went.
pub(super) fn at_place<T>(
    slot: &Arc<Slot>,
    key: BlockKey,
    mut act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>,
) -> Result<T, FreeError> {
    let mut moved = slot.shared.follow(slot, key);
    loop {
        let (at, at_key) = moved.as_ref().map_or((slot, key), |(slot, key)| (slot, *key));
        let outcome = act(at, at_key);
        if outcome.is_ok() {
            return outcome;
        }
        let now = slot.shared.follow(slot, key);
        let number = |place: &(Arc<Slot>, BlockKey)| (place.0.number, place.1);
        if now.as_ref().map(number) == moved.as_ref().map(number) {
            return outcome;
        }
        moved = now;
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.owns {
            return;
        }
        let shared = &self.slot.shared;
        let mut moved = None;
        loop {
            let here = (&self.slot, self.key);
            let (slot, key) =
                moved.as_ref().map_or(here, |(slot, key): &(Arc<Slot>, BlockKey)| (slot, *key));
            if let Some(next) = shared.forget(slot, key) {
                moved = Some(next);
                continue;
            }
            match slot.free(key, super::is_foreign(slot)) {
                Ok(()) => return,
                // Compaction was faster; it has said where the block is.
                Err(_) if shared.has_moved(slot, key) => {}
                Err(error) => panic!("a handle's block is live: {error}"),
            }
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, block) = self.find();
        f.debug_struct("Allocation").field("address", &address).field("size", &block.size).finish()
    }
}

/// Keeps a block live and in its place. See [`Allocation::pin`].
#[derive(Debug)]
pub struct Pin {
    slot: Arc<Slot>,
    key: BlockKey,
    address: VirtualAddress,
    size: Bytes,
}

impl Pin {
    /// Where the block is for as long as this lives.
    pub fn address(&self) -> VirtualAddress {
        self.address
    }

    /// How long it is.
    pub fn size(&self) -> Bytes {
        self.size
    }

    pub(super) fn belongs_to(&self, allocator: &FlexAllocator) -> bool {
        Arc::ptr_eq(&self.slot.shared, &allocator.shared)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.slot.unpin(self.key);
    }
}
