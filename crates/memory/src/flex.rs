//! The Flex family: an allocator over regions of a device.
//!
//! [`FlexAllocator`] acquires a few large regions from a [`DeviceMemory`] and carves blocks out of them. The address of
//! a block is a [`VirtualAddress`]: a region and an offset in it, aligned to 128 bytes. Strategies ([`crate::policy`])
//! choose the region and the position in it; everything else is a [`FlexConfig`].
//!
//! ```
//! use std::sync::Arc;
//! use cubeyard_memory::device::{Card, CardSpec};
//! use cubeyard_memory::flex::FlexAllocator;
//! use cubeyard_memory::Bytes;
//!
//! let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(32))));
//! let allocator = FlexAllocator::new(card);
//! let weights = allocator.allocate(Bytes::mib(200)).unwrap();
//! let bias = allocator.allocate(Bytes::new(1000)).unwrap();
//! assert_eq!(bias.address().region_id, weights.address().region_id);
//! assert_eq!(bias.size(), Bytes::new(1024));
//! drop(weights); // its block joins the free range
//! assert_eq!(allocator.stats().allocated(), Bytes::new(1024));
//! ```
//!
//! **Threads.** Every region has its own lock, and a free needs no other. With the region strategy `thread-home`
//! threads do not contend: each has a region. A thread passes on the blocks that it frees in other regions 64 at a
//! time, or when the statistics are read or memory runs out. (Until then, peaks count such a block.) No lock is held
//! while the device, a callback or the streams are called.
//!
//! **Pools and tags.** A [`Pool`] has regions of its own, with statistics and a limit. A tag
//! ([`FlexAllocator::tag`]) counts the bytes of blocks by purpose, with a [`Budget`].
//!
//! **When memory runs out** the allocator frees blocks whose streams have passed, acquires another region, waits for
//! streams, returns idle memory to the device (unless configured otherwise), and calls the callbacks
//! ([`FlexAllocator::on_pressure`]), in this order. Then it tries once more, and reports a failure as [`OutOfMemory`].

mod acquire;
mod advice;
mod budgets;
mod builder;
mod callbacks;
mod capture;
mod charge;
mod compaction;
mod config;
mod error;
mod event;
mod export;
mod granules;
mod handle;
mod history;
mod journal;
mod launch;
mod live;
mod moves;
mod on_pressure;
mod pass;
mod pool;
mod pools;
mod pressure;
mod region;
mod registry;
mod remedy;
mod resize;
mod rest;
mod rmm_log;
mod segments;
mod slots;
mod snapshot;
mod steps;
mod still;
mod stream;
mod tag;
mod token;
mod trials;
mod watch;

use std::fmt;

pub use budgets::{Budget, BudgetExceeded, TagError, TagReport};
pub use builder::{BuildError, Builder};
pub use compaction::{Compaction, Move};
pub use config::{
    Acquire, ConfigError, FlexConfig, Growth, MAX_REGIONS, MIN_ALIGNMENT, PRESETS, Pooling, Preset,
    Refusal, Release, Sizes,
};
pub use error::{AllocateError, FreeError, OutOfMemory, RegionLimit, RegionReport, Shortage};
pub use event::{Action, Event};
pub use export::{Export, ExportError};
pub use handle::{Allocation, Pin};
pub use history::HistoryEntry;
pub use launch::{Argument, CorrectionBuffer, Launch, LaunchError, Operand, Program, Tiles};
pub use on_pressure::PressureCallback;
pub use pool::{Pool, PoolSpec};
pub use pools::PoolReport;
pub use registry::{AlreadyRegistered, DeviceIndex, Registry};
pub use remedy::{Remedy, RemedyBasis, RemedyStep};
pub use resize::{Obstacle, ResizeError};
pub use rest::{PauseError, ResumeError};
pub use rmm_log::{RmmLog, RmmRow};
pub use segments::{Segment, SegmentId, SegmentTable};
pub use snapshot::{BlockState, Frame, Snapshot, SnapshotBlock, SnapshotSegment};
pub use stream::{EventId, StreamEvents};
pub use token::{AllocationToken, TokenBlock};
pub use watch::Subscription;

use crate::Bytes;
use crate::device::{DeviceMemory, RegionId};
use crate::policy::{First, RegionView, Request};
pub use crate::policy::{PoolId, TagId};
use crate::stats::Stats;
use crate::sync::{Arc, lock, thread_number};
use acquire::Acquired;
use pools::Domain;
use slots::{Shared, Slot, SlotBlock, Slots};

/// An address in device memory: a region and an offset in it. It owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualAddress {
    /// Region, as named by the device; see [`RegionId`].
    pub region_id: RegionId,
    /// Offset from the start of the region, a multiple of the allocator's alignment.
    pub offset: Bytes,
}

impl fmt::Display for VirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.region_id, self.offset.get())
    }
}

/// An allocator of blocks over the regions of a device; see the [module](self). A clone is another
/// handle to the same allocator.
#[derive(Clone, Debug)]
pub struct FlexAllocator {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
}

impl FlexAllocator {
    /// Creates an allocator over `device` with the default configuration.
    pub fn new(device: Arc<dyn DeviceMemory>) -> Self {
        Self::builder(device).build().expect("the default asks nothing special of a device")
    }

    /// Returns a builder of an allocator over `device`.
    pub fn builder(device: Arc<dyn DeviceMemory>) -> Builder {
        Builder::new(device)
    }

    /// Returns the configuration.
    pub fn config(&self) -> &FlexConfig {
        &self.shared.config
    }

    /// Returns the device below the allocator.
    pub fn device(&self) -> &Arc<dyn DeviceMemory> {
        &self.shared.device
    }

    /// Allocates a block of at least `size` bytes for a tensor.
    pub fn allocate(&self, size: Bytes) -> Result<Allocation, AllocateError> {
        self.allocate_for(&Request::new(size))
    }

    /// Allocates a block for a request.
    pub fn allocate_for(&self, request: &Request) -> Result<Allocation, AllocateError> {
        let plain = request.pool == PoolId::DEFAULT && request.tag == TagId::NONE;
        let outcome = if plain && self.config().pools == Pooling::One {
            self.find_room(request)
        } else {
            self.find_labelled(request)
        };
        self.shared.deliver();
        outcome
    }

    /// Checks the numbers of a request.
    #[inline]
    fn check(request: &Request) -> Result<(), AllocateError> {
        if request.size.is_zero() {
            return Err(AllocateError::ZeroBytes);
        }
        if !request.alignment.get().is_power_of_two() {
            return Err(AllocateError::BadAlignment(request.alignment));
        }
        Ok(())
    }

    #[inline]
    fn find_room(&self, request: &Request) -> Result<Allocation, AllocateError> {
        Self::check(request)?;
        self.shared.journal.tick();
        match self.shared.streams.see(request.stream) {
            None => return Err(AllocateError::Reentrant),
            Some(0) => {}
            Some(waits) => self.shared.count_stream_waits(waits),
        }
        self.shared.poll(Some(request.stream));
        if self.config().acquire == Acquire::First && !self.regions_locked() {
            let turn = self.shared.take_turn();
            let acquired = self.acquire(turn.as_ref(), Some(request), None, None);
            if let Acquired::Placed(allocation) = acquired {
                return Ok(allocation);
            }
        }
        match self.search(request) {
            Some(allocation) => Ok(allocation),
            None => self.allocate_under_pressure(request),
        }
    }

    /// Starts a new history of the last `limit` events, which replaces the current one; 0 disables the history.
    pub fn record_history(&self, limit: usize) {
        self.shared.journal.restart(limit);
    }

    /// Returns the most recent events, oldest first; [`record_history`](Self::record_history) or the configuration's
    /// `history` limits their number.
    pub fn history(&self) -> Vec<HistoryEntry> {
        self.shared.collect_posts();
        self.shared.journal.entries().0
    }

    /// Frees the block that starts at `address`; no handle may own it (see [`Allocation::leak`]).
    ///
    /// An address can only be checked for being live now. If its block was freed and the place was given to another
    /// leaked block, this frees the other block. Tokens do not have this weakness.
    pub fn deallocate(&self, address: VirtualAddress) -> Result<(), FreeError> {
        let unknown = Err(FreeError::UnknownRegion { address });
        let mut answers = self.slots.iter().map(|slot| slot.free_at(address));
        answers.find(|answer| *answer != unknown).unwrap_or(unknown)
    }

    /// Returns all idle memory to the device, regions and granules, and returns the number of bytes. Afterwards regions
    /// may be acquired again, even if none was released, since the device may have room for other reasons. A device
    /// that trims during a call gets zero; the idle memory is returned when the call is over.
    pub fn trim(&self) -> Bytes {
        self.shared.poll_all();
        let bytes = self.shared.trim();
        self.unlock_regions();
        self.shared.deliver();
        bytes
    }

    /// Forgets that the device has refused all sizes of a region, so that it is asked again; see
    /// [`Refusal`]. The device may have room now, or may have failed for another reason.
    pub fn unlock_regions(&self) {
        lock(&self.shared.regions).refused = false;
    }

    /// Waits until no freed block waits for a stream.
    pub fn synchronize(&self) {
        self.shared.synchronize();
    }

    /// Returns the current statistics.
    pub fn stats(&self) -> Stats {
        self.shared.stats(&self.slots)
    }

    /// Sets the peaks to the current figures.
    pub fn reset_peak_stats(&self) {
        self.shared.reset_peaks(&self.slots);
    }

    /// Sets the accumulated figures and the counters to zero.
    pub fn reset_accumulated_stats(&self) {
        self.shared.reset_accumulated(&self.slots);
    }

    /// Returns the current segment table.
    pub fn segment_table(&self) -> SegmentTable {
        lock(&self.shared.regions).segments.table()
    }

    /// Returns whether no more regions are acquired: the device has refused all sizes, or the number of regions has
    /// reached `max_regions` or the size of the segment table. [`trim`](Self::trim) can change that. After a refusal, a
    /// request that finds no room still asks the device, unless the configuration has [`Refusal::Lock`].
    pub fn regions_locked(&self) -> bool {
        self.limit() != RegionLimit::Open
    }

    /// Returns whether this thread is inside a function of the device or the streams that the allocator has called.
    /// From there, blocks can be freed, inspected, and allocated if there is room.
    pub fn is_calling_out(&self) -> bool {
        self.shared.is_calling() || self.slots.iter().any(|slot| slot.is_calling())
    }

    /// Returns whether this thread is inside a callback ([`on_pressure`](Self::on_pressure)) or a subscriber
    /// ([`subscribe`](Self::subscribe)).
    pub fn is_calling_back(&self) -> bool {
        self.shared.callbacks.is_calling() || self.shared.journal.delivery.is_mine()
    }

    /// Returns the figures of the regions, oldest first.
    pub fn regions(&self) -> Vec<RegionReport> {
        self.reports(|_| true)
    }

    fn reports(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<RegionReport> {
        let slots = self.slots.iter().filter(|slot| wanted(slot));
        let mut reports: Vec<_> =
            slots.filter_map(|slot| Some((slot.since(), slot.report()?))).collect();
        reports.sort_by_key(|&(since, _)| since);
        reports.into_iter().map(|(_, report)| report).collect()
    }

    /// Tries the thread's own region, if it has one, then the strategy's first region, then all in its order.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a part of the path of every request")]
    fn search(&self, request: &Request) -> Option<Allocation> {
        if self.config().region.thread_home
            && request.pool == PoolId::DEFAULT
            && let Some(allocation) = self.search_home(request)
        {
            return Some(allocation);
        }
        let first = match self.shared.first_region(request) {
            First::None => None,
            First::Slot(slot) => Some(slot),
            First::Tie(slot) => self.oldest_like(slot),
        };
        if let Some(slot) = first
            && let Some(block) = self.slots[slot].try_allocate(request)
        {
            return Some(Allocation::new(block));
        }
        self.search_in_order(request, Slot::try_allocate)
    }

    /// Returns the slot of the oldest region with as many free bytes as the region of `slot`.
    #[cold]
    fn oldest_like(&self, slot: usize) -> Option<usize> {
        self.shared.equals(slot).min_by_key(|&slot| self.slots[slot].since())
    }

    #[inline(never)]
    fn search_home(&self, request: &Request) -> Option<Allocation> {
        let home = &self.slots[thread_number() % self.slots.len()];
        if home.is_vacant() && !self.regions_locked() {
            let turn = self.shared.take_turn();
            let acquired = self.acquire(turn.as_ref(), Some(request), Some(home), None);
            if let Acquired::Placed(allocation) = acquired {
                return Some(allocation);
            }
        }
        home.view(Domain::of(request, self.config()))?;
        home.try_allocate(request).map(Allocation::new)
    }

    fn search_in_order(
        &self,
        request: &Request,
        place: fn(&Arc<Slot>, &Request) -> Option<SlotBlock>,
    ) -> Option<Allocation> {
        self.ordered(request, |slot| place(slot, request)).map(Allocation::new)
    }

    /// Returns the first block that `place` returns for a slot, in the order of the region strategy.
    fn ordered(
        &self,
        request: &Request,
        mut place: impl FnMut(&Arc<Slot>) -> Option<SlotBlock>,
    ) -> Option<SlotBlock> {
        let domain = Domain::of(request, self.config());
        let views = self.slots.iter().filter_map(|slot| slot.view(domain));
        let mut views: Vec<_> = views.collect();
        // Slots are filled in order, so only a reused slot is out of order.
        let since = |view: &RegionView| self.slots[view.slot].since();
        if !views.is_sorted_by_key(since) {
            views.sort_by_key(since);
        }
        let count = (self.config().region.order)(&mut views, request.size);
        views[..count].iter().find_map(|view| place(&self.slots[view.slot]))
    }
}
