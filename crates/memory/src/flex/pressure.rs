//! The ladder of steps for a request that found no room, and the report if no step helped.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use tracing::debug;

use super::acquire::Acquired;
use super::budgets::BudgetExceeded;
use super::config::Release;
use super::error::{AllocateError, OutOfMemory, RegionLimit, Shortage};
use super::event::Event;
use super::history::Action;
use super::pools::Domain;
use super::slots::{LOG, Slot};
use super::{Allocation, FlexAllocator};
use crate::Bytes;
use crate::device::{MemoryInfo, RegionId};
use crate::policy::Request;
use crate::stats::{Places, Pool, Quantity};

/// A placed request, failure, or continuation with the next step.
type Outcome = ControlFlow<Result<Allocation, Failure>>;

/// End of the climb without a block.
enum Failure {
    OutOfMemory,
    Device(AllocateError),
}

fn placed(found: Option<Allocation>) -> Outcome {
    found.map_or(Continue(()), |allocation| Break(Ok(allocation)))
}

fn repeated(region_id: RegionId) -> Outcome {
    Break(Err(Failure::Device(AllocateError::RepeatedRegion { region_id })))
}

/// A request that found no room, on its way up the [`LADDER`](Self::LADDER).
struct Climb<'a> {
    allocator: &'a FlexAllocator,
    request: &'a Request,
    /// Value of [`Shared::changes`](super::slots::Shared::changes) when regions were last searched.
    seen: u64,
}

impl Climb<'_> {
    /// The steps in order. Each step places the request, ends the climb, or continues with the next step.
    const LADDER: [fn(&mut Self) -> Outcome; 9] = [
        Self::acquire_region,
        Self::count_retry,
        Self::wait_for_streams,
        Self::search_everywhere,
        Self::exchange_idle_memory,
        Self::call_back,
        Self::wait_for_streams,
        Self::search_everywhere,
        Self::exchange_idle_memory,
    ];

    /// Searches all regions and acquires another; repeats this as long as other threads change the regions.
    fn acquire_region(&mut self) -> Outcome {
        let Self { allocator, request, .. } = *self;
        self.seen = allocator.shared.changes();
        loop {
            let seen = allocator.shared.changes();
            placed(allocator.search(request))?;
            let turn = allocator.shared.take_turn();
            match allocator.acquire(turn.as_ref(), Some(request), None, Some(seen)) {
                Acquired::Placed(allocation) => return Break(Ok(allocation)),
                Acquired::Changed | Acquired::Region => {}
                Acquired::Refused => return Continue(()),
                Acquired::Repeated(region_id) => return repeated(region_id),
            }
        }
    }

    fn count_retry(&mut self) -> Outcome {
        let Self { allocator, request, .. } = *self;
        let pool = allocator.shared.pools.get(request.pool);
        allocator.shared.count_in(pool.as_deref(), |counters| counters.alloc_retries += 1);
        Continue(())
    }

    fn wait_for_streams(&mut self) -> Outcome {
        self.allocator.shared.synchronize();
        Continue(())
    }

    /// Searches again, including memory that the strategy would not choose.
    fn search_everywhere(&mut self) -> Outcome {
        let Self { allocator, request, .. } = *self;
        placed(allocator.search(request))?;
        placed(allocator.search_in_order(request, Slot::try_backed))
    }

    /// Returns idle memory to the device, if a region can then be acquired or memory committed for the request. If
    /// regions are never released, only granules are returned.
    fn exchange_idle_memory(&mut self) -> Outcome {
        let Self { allocator, request, seen } = *self;
        let shared = &allocator.shared;
        if allocator.rounded(request) > allocator.longest_block() {
            return Continue(());
        }
        let Some(turn) = shared.take_turn() else { return Continue(()) };
        placed(allocator.search_at_once(request))?;
        let regions = allocator.config().release != Release::Never;
        if allocator.is_over_pool_limit(request) {
            shared.give_back(&shared.slots_of(request.pool), regions, true);
        } else {
            shared.give_back(&allocator.slots, regions, true);
        }
        if shared.changes() == seen {
            return Continue(());
        }
        loop {
            placed(allocator.search_in_order(request, Slot::try_allocate))?;
            match allocator.acquire(Some(&turn), Some(request), None, None) {
                Acquired::Placed(allocation) => return Break(Ok(allocation)),
                Acquired::Changed | Acquired::Region => {}
                Acquired::Refused => return Continue(()),
                Acquired::Repeated(region_id) => return repeated(region_id),
            }
        }
    }

    /// Calls the callbacks. Without callbacks, no further step can help.
    fn call_back(&mut self) -> Outcome {
        let Self { allocator, request, .. } = *self;
        self.seen = allocator.shared.changes();
        let called = allocator.shared.callbacks.call(|| allocator.shortage(request, None));
        if called { Continue(()) } else { Break(Err(Failure::OutOfMemory)) }
    }
}

impl FlexAllocator {
    #[cold]
    pub(super) fn allocate_under_pressure(
        &self,
        request: &Request,
    ) -> Result<Allocation, AllocateError> {
        if self.is_calling_out() {
            return Err(AllocateError::Reentrant);
        }
        let mut climb = Climb { allocator: self, request, seen: 0 };
        match Climb::LADDER.iter().try_for_each(|step| step(&mut climb)) {
            Break(Ok(allocation)) => Ok(allocation),
            Break(Err(Failure::Device(error))) => Err(error),
            Break(Err(Failure::OutOfMemory)) | Continue(()) => Err(self.out_of_memory(request)),
        }
    }

    fn out_of_memory(&self, request: &Request) -> AllocateError {
        let pool = self.shared.pools.get(request.pool);
        self.shared.count_in(pool.as_deref(), |counters| counters.ooms += 1);
        let report = self.shortage(request, None);
        let info = MemoryInfo { free: report.device_free, total: report.device_total };
        let still = self.still(request, report.limit, info).map(Arc::new);
        let report = OutOfMemory { still, ..report };
        let (device_free, Request { size, stream, pool, tag, .. }) = (report.device_free, *request);
        self.shared.journal.tick();
        let event = Event::new(Action::OutOfMemory, size, stream);
        self.shared.journal.record(Event { device_free, pool, tag, ..event });
        debug!(target: LOG, requested = size.get(), "out of memory");
        AllocateError::OutOfMemory(Box::new(report))
    }

    /// Returns whether the limit of the request's pool leaves no room for it.
    fn is_over_pool_limit(&self, request: &Request) -> bool {
        let pool = self.shared.pools.get(request.pool);
        pool.is_some_and(|pool| pool.refuses(self.rounded(request)))
    }

    /// Searches committed memory with all regions locked. A search of one region after another can miss room that
    /// exists all the time: another thread may free a block in a region already searched and allocate one in a region
    /// not yet searched.
    fn search_at_once(&self, request: &Request) -> Option<Allocation> {
        let mut states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        let found = self.ordered(request, |slot| {
            let region = &mut states[slot.number].region;
            let placed = slot.place_backed(region, request);
            slot.publish(region);
            placed
        });
        let slack = &self.shared.slack;
        let above = states.iter_mut().any(|state| state.region.counts.may_be_above(slack));
        drop(states);
        if above {
            self.shared.settle(Places::ALL);
        }
        found.map(Allocation::new)
    }

    /// Describes a request that found no room, or that exceeds a budget.
    pub(super) fn shortage(
        &self,
        request: &Request,
        budget: Option<BudgetExceeded>,
    ) -> OutOfMemory {
        let rounded = self.rounded(request);
        let domain = Domain::of(request, self.config());
        let regions = self.reports(|slot| slot.view(domain).is_some());
        let free: Bytes = regions.iter().map(|region| region.free).sum();
        let largest = regions.iter().map(|region| region.largest).max().unwrap_or(Bytes::ZERO);
        let shortage = match () {
            () if rounded > self.longest_block() => Shortage::TooLarge,
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
            device_bound: self.shared.device.bound(),
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
            pool: self.pool_report(request),
            budget,
            still: None,
        }
    }

    /// Returns the limit that prevents the allocator from acquiring a region. A full table of the device, which other
    /// allocators may share, takes precedence over every other limit.
    fn region_limit(&self) -> RegionLimit {
        let full = self.shared.device.table().filter(|table| table.free == 0);
        full.map_or_else(|| self.limit(), |table| RegionLimit::Table(table.entries))
    }

    fn pending_bytes(&self) -> Bytes {
        let stats = self.stats();
        let active = stats.get(Quantity::ActiveBytes, Pool::All).current;
        let ranges: Bytes =
            self.slots.iter().map(|slot| slot.with(|region| region.waiting_bytes())).sum();
        Bytes::new(active) - stats.allocated() + ranges
    }
}
