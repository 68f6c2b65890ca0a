//! Allocations, which own blocks of device memory, and pins, which keep blocks in place.

use std::fmt;

use super::error::FreeError;
use super::slots::{self, Slot, SlotBlock};
use super::tag::Tag;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::policy::{Kind, PoolId, TagId};
use crate::sync::Arc;

/// An owned block of device memory. Dropping it frees the block, from any thread. It can be neither copied nor freed
/// twice, and it keeps its region alive.
///
/// An allocation names a block, not a place: if compaction moves the block, [`address`](Self::address) returns the new
/// place.
pub struct Allocation {
    /// Slot of the block; `None` once the handle is consumed.
    slot: Option<Arc<Slot>>,
    key: BlockKey,
}

impl Allocation {
    pub(super) fn new((slot, key): SlotBlock) -> Self {
        Self { slot: Some(slot), key }
    }

    /// Returns the current address of the block. [`pin`](Self::pin) the block to keep it there.
    pub fn address(&self) -> VirtualAddress {
        self.find().0
    }

    /// Returns the length of the block, rounded up to the granule.
    pub fn size(&self) -> Bytes {
        self.find().1.size
    }

    /// Returns the number of bytes requested.
    pub fn requested(&self) -> Bytes {
        self.find().1.requested
    }

    /// Returns the purpose of the block.
    pub fn kind(&self) -> Kind {
        Tag::from_bits(self.find().1.tag).kind()
    }

    /// Returns the pool of the block.
    pub fn pool(&self) -> PoolId {
        self.labels().0
    }

    /// Returns the tag that the block counts for.
    pub fn tag(&self) -> TagId {
        self.labels().1
    }

    fn labels(&self) -> (PoolId, TagId) {
        self.follow(|slot, key| slot.with(|region| region.labels(key)))
    }

    /// Records that `stream` uses the block as well. Once freed, the block is reused only when that stream has passed
    /// all work submitted to it before the free.
    pub fn record_stream(&self, stream: u32) {
        self.follow(|slot, key| slot.with(|region| region.record_stream(key, |_| true, stream)));
    }

    /// Keeps the block live and in place as long as the pin lives, even if this handle is dropped. A pin on a paused
    /// block brings back no memory.
    pub fn pin(&self) -> Pin {
        self.follow(|slot, key| Pin::new(slot, key, |_| true))
    }

    /// Gives up ownership without freeing. The block is then freed by its address
    /// ([`FlexAllocator::deallocate`](super::FlexAllocator::deallocate)). An address cannot follow a block, so
    /// compaction leaves the block in place.
    pub fn leak(mut self) -> VirtualAddress {
        let address = self.follow(|slot, key| slot.with(|region| region.leak(key)));
        self.slot = None;
        address
    }

    /// Gives up ownership without freeing, and returns the slot and key that the handle names. (If compaction has moved
    /// the block, the table of moved blocks has its current place.)
    pub(super) fn release(mut self) -> SlotBlock {
        self.follow(|slot, key| slot.with(|region| region.set_leaked(key, true)));
        (self.slot.take().expect("a handle has a slot until it is consumed"), self.key)
    }

    fn find(&self) -> (VirtualAddress, Block) {
        self.follow(Slot::find)
    }

    pub(super) fn follow<T>(
        &self,
        act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>,
    ) -> T {
        let slot = self.slot.as_ref().expect("a handle has a slot until it is consumed");
        slots::follow(slot, self.key, act).expect("a handle's block is live")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        match slot.foreign_home() {
            Some(home) => slots::post((slot, self.key), home),
            None => slots::free_now(slot, self.key),
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, block) = self.find();
        f.debug_struct("Allocation").field("address", &address).field("size", &block.size).finish()
    }
}

/// Guard that keeps a block live and in place. See [`Allocation::pin`].
#[derive(Debug)]
pub struct Pin {
    slot: Arc<Slot>,
    key: BlockKey,
    address: VirtualAddress,
    size: Bytes,
    /// Whether the block was paused when it was pinned.
    paused: bool,
}

impl Pin {
    pub(super) fn new(
        slot: &Arc<Slot>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
    ) -> Result<Self, FreeError> {
        let paused = slot.with(|region| region.pin(key, usable))?;
        let (address, block) = slot.find(key).expect("a pinned block is live");
        Ok(Self { slot: Arc::clone(slot), key, address, size: block.size, paused })
    }

    /// Returns the address of the block, which stays the same as long as the pin lives.
    pub fn address(&self) -> VirtualAddress {
        self.address
    }

    /// Returns the length of the block.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Returns whether the block had no memory when it was pinned.
    pub(super) fn was_paused(&self) -> bool {
        self.paused
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
