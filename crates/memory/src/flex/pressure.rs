//! What is done for a request that found no room, and the report where nothing helped.

use tracing::debug;

use super::config::Release;
use super::error::{AllocateError, OutOfMemory, RegionLimit, Shortage};
use super::history::Action;
use super::slot::{LOG, Slot};
use super::{Acquired, Allocation, FlexAllocator};
use crate::Bytes;
use crate::policy::Request;
use crate::stats::{Places, Pool, Quantity};
use crate::sync::Arc;

impl FlexAllocator {
    /// Everything that can be done for a request that found no room.
    #[cold]
    pub(super) fn allocate_under_pressure(
        &self,
        request: &Request,
    ) -> Result<Allocation, AllocateError> {
        if self.is_calling_out() {
            return Err(AllocateError::Reentrant);
        }
        let seen = self.shared.changes();
        if let Some(allocation) = self.search_or_acquire(request) {
            return Ok(allocation);
        }
        self.shared.count(|counters| counters.alloc_retries += 1);
        self.shared.synchronize();
        if let Some(allocation) = self.make_room(request, seen) {
            return Ok(allocation);
        }
        let seen = self.shared.changes();
        if self.shared.call_back(|| self.shortage(request)) {
            self.shared.synchronize();
            if let Some(allocation) = self.make_room(request, seen) {
                return Ok(allocation);
            }
        }
        Err(self.out_of_memory(request))
    }

    fn out_of_memory(&self, request: &Request) -> AllocateError {
        self.shared.count(|counters| counters.ooms += 1);
        let report = self.shortage(request);
        self.shared.tick();
        self.shared.record(
            Action::OutOfMemory,
            report.device_free.get(),
            request.size,
            request.stream,
        );
        debug!(target: LOG, requested = request.size.get(), "out of memory");
        AllocateError::OutOfMemory(Box::new(report))
    }

    /// Searches all regions and acquires another one if there is no room, for as long as other
    /// threads come in between.
    fn search_or_acquire(&self, request: &Request) -> Option<Allocation> {
        loop {
            let seen = self.shared.changes();
            if let Some(allocation) = self.search(request) {
                return Some(allocation);
            }
            match self.acquire(Some(request), None, Some(seen)) {
                Acquired::Placed(allocation) => return Some(allocation),
                Acquired::Changed | Acquired::Region => {}
                Acquired::Refused => return None,
            }
        }
    }

    /// Searches again, also in memory that the strategy would not choose; then gives back what is
    /// wholly free, granules only where regions are never given back, if a region can be acquired, or
    /// memory committed, for the request then. `seen` is what had changed when regions were last asked for.
    fn make_room(&self, request: &Request, seen: u64) -> Option<Allocation> {
        let found = self.search(request).or_else(|| self.search_by(request, try_backed));
        if found.is_some() || self.rounded(request) > self.longest_block() {
            return found;
        }
        let turn = self.shared.turn.take()?;
        let found = self.make_room_in_turn(request, seen);
        drop(turn);
        self.shared.after_turn();
        found
    }

    fn make_room_in_turn(&self, request: &Request, seen: u64) -> Option<Allocation> {
        if let Some(allocation) = self.search_at_once(request) {
            return Some(allocation);
        }
        match self.config().release {
            Release::Never => self.shared.give_granules_back(&self.slots),
            Release::WhenIdle(_) => drop(self.shared.give_back(&self.slots, true)),
        }
        if self.shared.changes() == seen {
            return None;
        }
        loop {
            if let Some(allocation) = self.search_by(request, Slot::try_allocate) {
                return Some(allocation);
            }
            match self.acquire_in_turn(Some(request), None, None) {
                Acquired::Placed(allocation) => return Some(allocation),
                Acquired::Changed | Acquired::Region => {}
                Acquired::Refused => return None,
            }
        }
    }

    /// Searches with all regions locked. Looking at one after the other can miss room that is there
    /// all the time, when another thread frees a block in a region that was looked at and allocates
    /// one in a region that was not.
    fn search_at_once(&self, request: &Request) -> Option<Allocation> {
        let mut states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        let mut views: Vec<_> =
            self.slots.iter().filter_map(|slot| slot.view(request.kind)).collect();
        views.sort_by_key(|view| self.slots[view.slot].since());
        let count = (self.config().region.order)(&mut views, request.size);
        let found = views[..count].iter().find_map(|view| {
            let slot = &self.slots[view.slot];
            let block = slot.place_backed(&mut states[view.slot], request)?;
            Some(Allocation::new(Arc::clone(slot), block.key))
        });
        let above = states.iter().any(|state| state.counts.is_above());
        drop(states);
        if above {
            self.shared.settle(Places::ALL);
        }
        found
    }

    /// Says why there is no room for a request.
    fn shortage(&self, request: &Request) -> OutOfMemory {
        let rounded = self.rounded(request);
        let regions = self.reports(|slot| slot.view(request.kind).is_some());
        let free: Bytes = regions.iter().map(|region| region.free).sum();
        let largest = regions.iter().map(|region| region.largest).max().unwrap_or(Bytes::ZERO);
        let shortage = match () {
            () if rounded > self.longest_block() => Shortage::TooBigForAnyRegion,
            () if free >= rounded => Shortage::Fragmented,
            () => Shortage::Full,
        };
        let info = self.shared.device.info();
        let limit = self.region_limit();
        OutOfMemory {
            requested: request.size,
            rounded,
            shortage,
            free,
            largest,
            device_free: info.free,
            device_total: info.total,
            longest_block: self.longest_block(),
            regions_locked: limit != RegionLimit::Open,
            limit,
            regions,
            pending: self.pending_bytes(),
            idle: self.slots.iter().filter_map(Slot::idle_bytes).sum(),
            movable: shortage == Shortage::Fragmented
                && self.slots.iter().any(|slot| !slot.movable().is_empty()),
            growth: self.config().growth,
            granule: self.shared.device.granule(),
            fragments_less: self.config().block.fragments_less,
        }
    }

    /// What keeps it from acquiring a region. A full table of the device's, which others may use too,
    /// stands in the way whatever else does.
    fn region_limit(&self) -> RegionLimit {
        let full = self.shared.device.table().filter(|table| table.free == 0);
        full.map_or_else(|| self.limit(), |table| RegionLimit::Table(table.entries))
    }

    /// Freed bytes that wait for a stream.
    fn pending_bytes(&self) -> Bytes {
        let stats = self.stats();
        let active = stats.get(Quantity::ActiveBytes, Pool::All).current;
        Bytes::new(active) - stats.allocated()
    }
}

fn try_backed(slot: &Arc<Slot>, request: &Request) -> Option<Allocation> {
    slot.try_backed(request).map(|block| Allocation::new(Arc::clone(slot), block.key))
}
