//! Allocations: owned blocks of device memory, and what one can hold instead of owning.

use std::fmt;

use super::VirtualAddress;
use super::slot::Slot;
use super::tag::Tag;
use super::token::AllocationToken;
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
        let (slot, key) = self.place();
        slot.record_stream(key, |_| true, stream).expect("a handle's block is live");
    }

    /// Keeps the block where it is, and live even if this is dropped, for as long as the pin lives.
    pub fn pin(&self) -> Pin {
        let (slot, key) = self.place();
        slot.pin(key, |_| true).expect("a handle's block is live");
        Pin::of_pinned(slot, key)
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
        let (slot, key) = self.place();
        slot.set_leaked(key, true).expect("a handle's block is live and owned by the handle");
        // The place as the handle knows it: where the block has moved since is known elsewhere.
        let token = AllocationToken { slot: self.slot().number, key: self.key };
        self.slot = None;
        token
    }

    fn slot(&self) -> &Arc<Slot> {
        self.slot.as_ref().expect("only a handle that is being consumed has none")
    }

    /// The slot and key that the block has now.
    fn place(&self) -> (Arc<Slot>, BlockKey) {
        let slot = self.slot();
        let moved = slot.shared.follow(slot, self.key);
        moved.unwrap_or_else(|| (Arc::clone(slot), self.key))
    }

    fn find(&self) -> (VirtualAddress, Block) {
        let (slot, key) = self.place();
        slot.find(key).expect("a handle's block is live")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let (slot, key) = slot.shared.forget(&slot, self.key).unwrap_or((slot, self.key));
        match slot.shared.other_slot(&slot) {
            Some(own) => own.post(slot, key),
            None => slot.free(key).expect("a handle's block is live"),
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
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.slot.unpin(self.key);
    }
}
