//! Allocations, which own blocks of device memory, and pins, which keep them in place.

use std::fmt;

use super::error::FreeError;
use super::slots::{self, Slot, SlotBlock};
use super::tag::Tag;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::policy::Kind;
use crate::sync::Arc;

/// An owned block of device memory. Dropping it frees the block, from any thread; it can be neither
/// copied nor freed twice, and it keeps its region alive.
///
/// It names its block, not a place: if compaction moves the block, [`address`](Self::address)
/// returns the new place.
pub struct Allocation {
    /// None once the handle is consumed.
    slot: Option<Arc<Slot>>,
    key: BlockKey,
}

impl Allocation {
    pub(super) fn new((slot, key): SlotBlock) -> Self {
        Self { slot: Some(slot), key }
    }

    /// Returns the present address of the block. [`pin`](Self::pin) it to keep it there.
    pub fn address(&self) -> VirtualAddress {
        self.find().0
    }

    /// Returns the present address in the flat address space of snapshots.
    pub(super) fn flat(&self) -> u64 {
        self.follow(|slot, key| slot.with(|region| region.flat(key)))
    }

    /// Returns the length of the block, rounded up to the granule.
    pub fn size(&self) -> Bytes {
        self.find().1.size
    }

    /// Returns the number of bytes that were asked for.
    pub fn requested(&self) -> Bytes {
        self.find().1.requested
    }

    /// Returns the purpose of the block.
    pub fn kind(&self) -> Kind {
        Tag::from_bits(self.find().1.tag).kind()
    }

    /// Notes that `stream` uses the block too: once freed, it is used again only when that stream
    /// has passed everything that it was given until then.
    pub fn record_stream(&self, stream: u32) {
        self.follow(|slot, key| slot.with(|region| region.record_stream(key, |_| true, stream)));
    }

    /// Keeps the block in its place, and live even if this is dropped, for as long as the pin lives.
    pub fn pin(&self) -> Pin {
        self.follow(|slot, key| Pin::new(slot, key, |_| true))
    }

    /// Gives up ownership without freeing: the block is then freed by its address
    /// ([`FlexAllocator::deallocate`](super::FlexAllocator::deallocate)). An address cannot follow a
    /// block, so compaction leaves this one in its place.
    pub fn leak(mut self) -> VirtualAddress {
        let address = self.follow(|slot, key| slot.with(|region| region.leak(key)));
        self.slot = None;
        address
    }

    /// Gives up ownership without freeing, and returns the slot and key that the handle names. (If
    /// compaction has moved the block, its present place is in the table of moved blocks.)
    pub(super) fn release(mut self) -> SlotBlock {
        self.follow(|slot, key| slot.with(|region| region.set_leaked(key, true)));
        (self.slot.take().expect("a handle has a slot until it is consumed"), self.key)
    }

    fn find(&self) -> (VirtualAddress, Block) {
        self.follow(Slot::find)
    }

    fn follow<T>(&self, act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>) -> T {
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

/// Keeps a block live and in its place. See [`Allocation::pin`].
#[derive(Debug)]
pub struct Pin {
    slot: Arc<Slot>,
    key: BlockKey,
    address: VirtualAddress,
    size: Bytes,
}

impl Pin {
    pub(super) fn new(
        slot: &Arc<Slot>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
    ) -> Result<Self, FreeError> {
        slot.with(|region| region.pin(key, usable))?;
        let (address, block) = slot.find(key).expect("a pinned block is live");
        Ok(Self { slot: Arc::clone(slot), key, address, size: block.size })
    }

    /// Returns the address of the block, which stays the same for as long as this lives.
    pub fn address(&self) -> VirtualAddress {
        self.address
    }

    /// Returns the length of the block.
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
