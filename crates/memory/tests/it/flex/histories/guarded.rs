//! A device that holds the allocator to the ledger: no memory of a block, or of work that is not done, is taken away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, Faulty, MemoryInfo, RegionHandle, RegionId,
    TableInfo,
};

use super::ground::Ground;
use crate::flex::Strict;
use crate::flex::lagging::Lagging;

/// A card that fails on demand, and checks every call against its contract and the ledger.
pub(super) struct Guarded {
    card: Strict<Faulty<Card>>,
    pub(super) streams: Arc<Lagging>,
    ground: Mutex<Ground>,
}

impl Guarded {
    pub(super) fn new(spec: CardSpec) -> Self {
        let card = Strict::for_one_thread(Faulty::new(Card::new(spec)));
        Self { card, streams: Arc::default(), ground: Mutex::default() }
    }

    pub(super) fn card(&self) -> &Strict<Faulty<Card>> {
        &self.card
    }

    /// Returns the ledger, locked. No function of the allocator may be called meanwhile.
    pub(super) fn ground(&self) -> MutexGuard<'_, Ground> {
        self.ground.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_away(&self, region: RegionId, offset: Bytes, size: Bytes) {
        // After a failure, blocks are dropped that the ledger still has.
        if std::thread::panicking() {
            return;
        }
        let (start, end) = (offset.get(), (offset + size).get());
        self.ground().take_away((region, start), end, &self.streams.state());
    }
}

impl DeviceMemory for Guarded {
    fn mode(&self) -> AddressMode {
        self.card.mode()
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.card.try_acquire(size)
    }

    fn release(&self, region: RegionHandle) {
        self.take_away(region.id, Bytes::ZERO, region.size);
        self.ground().forget_region(region.id);
        self.card.release(region);
    }

    fn info(&self) -> MemoryInfo {
        self.card.info()
    }

    fn table(&self) -> Option<TableInfo> {
        self.card.table()
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.card.physical_address(region)
    }

    fn granule(&self) -> Option<Bytes> {
        self.card.granule()
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.card.try_reserve(size)
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.card.commit(region, offset, size)
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.take_away(region.id, offset, size);
        self.card.decommit(region, offset, size);
    }
}
