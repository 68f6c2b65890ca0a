//! Allocations: owned blocks of device memory, and what one can hold instead of owning.

use std::fmt;

use super::mail;
use super::slot::Slot;
use super::tag::Tag;
use super::token::AllocationToken;
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
    /// Gone when the block is no longer this handle's to free.
    slot: Option<Arc<Slot>>,
    key: BlockKey,
}

impl Allocation {
    pub(super) fn new(slot: Arc<Slot>, key: BlockKey) -> Self {
        Self { slot: Some(slot), key }
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
        self.at_place(|slot, key| slot.record_stream(key, |_| true, stream));
    }

    /// Keeps the block where it is, and live even if this is dropped, for as long as the pin lives.
    pub fn pin(&self) -> Pin {
        self.at_place(|slot, key| {
            slot.pin(key, |_| true)?;
            Ok(Pin::of_pinned(Arc::clone(slot), key))
        })
    }

    /// Gives up ownership without freeing: the block is then freed by its address
    /// ([`FlexAllocator::deallocate`](super::FlexAllocator::deallocate)). An address cannot follow a
    /// block, so compaction leaves this one where it is.
    pub fn leak(mut self) -> VirtualAddress {
        let address = self.at_place(Slot::leak);
        self.slot = None;
        address
    }

    /// Gives up ownership without freeing: the block is then freed by this token
    /// ([`FlexAllocator::free_token`](super::FlexAllocator::free_token)), or owned again
    /// ([`FlexAllocator::adopt`](super::FlexAllocator::adopt)).
    pub fn into_token(mut self) -> AllocationToken {
        self.at_place(|slot, key| slot.set_leaked(key, true));
        // The place as the handle knows it: where the block has moved since is known elsewhere.
        let slot = self.slot();
        let token = AllocationToken { allocator: slot.shared.id, slot: slot.number, key: self.key };
        self.slot = None;
        token
    }

    fn slot(&self) -> &Arc<Slot> {
        self.slot.as_ref().expect("only a handle that is being consumed has none")
    }

    fn find(&self) -> (VirtualAddress, Block) {
        self.at_place(|slot, key| slot.find(key).ok_or(FreeError::Stale))
    }

    /// Does something with the block where it is now.
    fn at_place<T>(&self, act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>) -> T {
        at_place(self.slot(), self.key, act).expect("a handle's block is live")
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
        let Some(slot) = self.slot.take() else { return };
        match slot.foreign_home() {
            Some(home) => mail::post(slot, self.key, home),
            None => free_now(slot, self.key),
        }
    }
}

/// Frees the block of a handle, wherever compaction has moved it.
pub(super) fn free_now(slot: Arc<Slot>, key: BlockKey) {
    let (mut slot, mut key) = (slot, key);
    loop {
        if let Some(next) = slot.shared.forget(&slot, key) {
            (slot, key) = next;
        } else {
            match slot.free(key) {
                Ok(()) => return,
                // Compaction was faster; it has said where the block is.
                Err(_) if slot.shared.has_moved(&slot, key) => {}
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
    /// A pin on a block that was pinned for it.
    pub(super) fn of_pinned(slot: Arc<Slot>, key: BlockKey) -> Self {
        let (address, block) = slot.find(key).expect("a pinned block is live");
        Self { slot, key, address, size: block.size }
    }

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
