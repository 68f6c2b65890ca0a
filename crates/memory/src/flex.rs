//! The Flex family: an allocator over regions of a device.
//!
//! [`FlexAllocator`] acquires a few large regions from a [`DeviceMemory`] and carves blocks out of
//! them, each a [`VirtualAddress`]: a region and an offset in it, aligned to 128 bytes. Which region
//! and where in it are strategies ([`crate::policy`]); everything else is a [`FlexConfig`].
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
//! **Threads.** Every region has a lock of its own; whoever frees a block needs no other. With the
//! region strategy `thread-home` threads do not contend: each has a region, and collects the blocks
//! of others that it frees to pass them on 32 at a time, or when somebody looks at the statistics or
//! runs out of memory. (Peaks then count such a block until it is passed on.) No lock is held while
//! the device, a callback or the streams are called.
//!
//! **When memory runs out** the allocator frees blocks whose streams have passed, acquires another
//! region, waits for streams, gives back what is wholly free, and calls the callbacks
//! ([`FlexAllocator::on_pressure`]), in this order and as far as each applies; then it tries once
//! more and reports ([`OutOfMemory`]).

mod compaction;
mod config;
mod error;
mod granules;
mod handle;
mod history;
mod launch;
mod registry;
mod segments;
mod shared;
mod slot;
mod snapshot;
mod stream;
mod tag;
mod token;

use std::fmt;
use std::ops::Deref;

use tracing::{debug, info};

pub use compaction::{Compaction, Move};
pub use config::{Acquire, ConfigError, FlexConfig, Growth, MAX_REGIONS, Release};
pub use error::{AllocateError, FreeError, OutOfMemory, RegionReport, Shortage};
pub use handle::{Allocation, Pin};
pub use history::{Action, HistoryEntry};
pub use launch::{CorrectionBuffer, Launch, LaunchError, Operand, Program, Tiles};
pub use registry::{DeviceIndex, Registry};
pub use segments::{Segment, SegmentId, SegmentTable};
pub use snapshot::{BlockState, Snapshot, SnapshotBlock, SnapshotSegment};
pub use stream::{EventId, StreamEvents};
pub use token::{AllocationToken, TokenBlock};

use crate::Bytes;
use crate::device::{DeviceMemory, RegionHandle, RegionId};
use crate::policy::{Kind, RegionView, Request};
use crate::stats::Stats;
use crate::sync::{Arc, lock};
use shared::{Clock, Shared, home};
use slot::{LOG, Slot};

/// A place in device memory: an offset in a region. It says nothing of a size, and owns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualAddress {
    /// The region: a physical address or an index into the firmware's table, see [`RegionId`].
    pub region_id: RegionId,
    /// The distance from its start, a multiple of the allocator's alignment.
    pub offset: Bytes,
}

impl fmt::Display for VirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:#x}", self.region_id, self.offset.get())
    }
}

/// The allocator. Cloning it gives another handle to the same one.
///
/// See the [module](self) for what it does and an example.
#[derive(Clone, Debug)]
pub struct FlexAllocator {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
}

/// The slots of an allocator, until its last handle is dropped.
#[derive(Debug)]
struct Slots(Vec<Arc<Slot>>);

impl Deref for Slots {
    type Target = [Arc<Slot>];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        if let Some(slot) = self.0.first() {
            slot.shared.close();
        }
    }
}

/// Makes a [`FlexAllocator`] that is not quite the default one.
pub struct Builder {
    device: Arc<dyn DeviceMemory>,
    config: FlexConfig,
    events: Option<Arc<dyn StreamEvents>>,
    clock: Option<Clock>,
}

/// An allocator cannot be made as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Growable regions need a device that can commit memory in granules. Use `growth:fixed`.
    #[error("`growth` asks for growable regions, but the device cannot commit memory in granules")]
    NotGrowable,
    /// The alignment does not divide the device's granule. Use a smaller one.
    #[error("`alignment` {alignment} does not divide the device's granule {granule}")]
    AlignmentAboveGranule {
        /// The allocator's alignment.
        alignment: Bytes,
        /// The device's granule.
        granule: Bytes,
    },
}

impl Builder {
    /// With this configuration.
    #[must_use]
    pub fn config(mut self, config: FlexConfig) -> Self {
        self.config = config;
        self
    }

    /// With these streams; without any, there is one, and all frees are immediate.
    #[must_use]
    pub fn events(mut self, events: Arc<dyn StreamEvents>) -> Self {
        self.events = Some(events);
        self
    }

    /// With a clock for the history, in microseconds; without one, events are numbered.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The allocator. Regions that are to be acquired eagerly are; if the device has fewer, those it
    /// has.
    pub fn build(self) -> Result<FlexAllocator, BuildError> {
        let Self { device, config, events, clock } = self;
        if config.growth != Growth::Fixed {
            let granule = device.granule().ok_or(BuildError::NotGrowable)?;
            if config.alignment > granule {
                return Err(BuildError::AlignmentAboveGranule {
                    alignment: config.alignment,
                    granule,
                });
            }
        }
        let (count, acquire) = (config.max_regions, config.acquire);
        let shared = Arc::new(Shared::new(config, device, events, clock));
        let slots: Vec<_> =
            (0..count).map(|number| Arc::new(Slot::new(number, Arc::clone(&shared)))).collect();
        shared
            .slots
            .set(slots.iter().map(Arc::downgrade).collect())
            .expect("the slots are set once");
        let allocator = FlexAllocator { shared, slots: Arc::new(Slots(slots)) };
        if let Acquire::Eager(count) = acquire {
            (0..count)
                .take_while(|_| allocator.acquire(&Request::new(Bytes::ZERO), None).is_some())
                .for_each(drop);
        }
        Ok(allocator)
    }
}

impl FlexAllocator {
    /// An allocator as the RFC describes it, over `device`.
    pub fn new(device: Arc<dyn DeviceMemory>) -> Self {
        Self::builder(device).build().expect("the default asks nothing special of a device")
    }

    /// Begins an allocator that is configured.
    pub fn builder(device: Arc<dyn DeviceMemory>) -> Builder {
        Builder { device, config: FlexConfig::default(), events: None, clock: None }
    }

    /// How it is configured.
    pub fn config(&self) -> &FlexConfig {
        &self.shared.config
    }

    /// The device below it.
    pub fn device(&self) -> &Arc<dyn DeviceMemory> {
        &self.shared.device
    }

    /// A block of at least `size` bytes for a tensor.
    pub fn allocate(&self, size: Bytes) -> Result<Allocation, AllocateError> {
        self.allocate_for(&Request::new(size))
    }

    /// A block as `request` says.
    pub fn allocate_for(&self, request: &Request) -> Result<Allocation, AllocateError> {
        if request.size.is_zero() {
            return Err(AllocateError::ZeroBytes);
        }
        if !request.alignment.get().is_power_of_two() {
            return Err(AllocateError::BadAlignment(request.alignment));
        }
        self.shared.see_stream(request.stream);
        self.shared.poll();
        if self.config().acquire == Acquire::First
            && let Some(slot) = self.acquire(request, None)
            && let Some(allocation) = try_slot(&slot, request)
        {
            return Ok(allocation);
        }
        match self.search(request) {
            Some(allocation) => Ok(allocation),
            None => self.allocate_under_pressure(request),
        }
    }

    /// Frees the block that starts at `address`, which no handle owns (see [`Allocation::leak`]).
    ///
    /// An address can only be checked for being live now; if its block was freed and the place given
    /// to another leaked block, this frees that one. Tokens do not have this weakness.
    pub fn deallocate(&self, address: VirtualAddress) -> Result<(), FreeError> {
        let unknown = FreeError::UnknownRegion { address };
        let answers = self.slots.iter().map(|slot| (slot, slot.find_at(address)));
        let (slot, block) =
            answers.into_iter().find(|(_, answer)| *answer != Err(unknown)).ok_or(unknown)?;
        let block = block?;
        slot.set_leaked(block.key, false)?;
        self.shared.forget(slot, block.key);
        slot.free(block.key)
    }

    /// Registers a function to be called when memory has run out and the allocator has done what it
    /// can. It may free blocks, on this thread or another; the functions are called in the order in
    /// which they were registered, then the request is tried once more.
    pub fn on_pressure(&self, callback: impl Fn(&OutOfMemory) + Send + Sync + 'static) {
        lock(&self.shared.callbacks).push(Arc::new(callback));
    }

    /// Gives everything back to the device that is wholly free, regions and granules, and says how
    /// much that was. If regions were given back, more may be acquired again.
    pub fn trim(&self) -> Bytes {
        self.shared.poll();
        self.shared.trim()
    }

    /// Waits until no freed block waits for a stream any more.
    pub fn synchronize(&self) {
        self.shared.synchronize();
    }

    /// The statistics at this moment.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Takes what is there now for the peaks.
    pub fn reset_peak_stats(&self) {
        self.shared.reset_peaks();
    }

    /// Sets what came and went, and the counters, to zero.
    pub fn reset_accumulated_stats(&self) {
        self.shared.reset_accumulated();
    }

    /// The segment table at this moment.
    pub fn segment_table(&self) -> SegmentTable {
        lock(&self.shared.regions).segments.clone()
    }

    /// Whether the allocator has given up acquiring regions: all sizes failed, or there are as many
    /// as may be. [`trim`](Self::trim) can change that.
    pub fn regions_locked(&self) -> bool {
        lock(&self.shared.regions).locked
    }

    /// The regions in figures, the oldest first.
    pub fn regions(&self) -> Vec<RegionReport> {
        let mut reports: Vec<_> = Vec::new();
        for slot in self.slots.iter() {
            reports.extend(Kind::ALL.iter().find_map(|&kind| slot.report(kind)));
        }
        reports
    }

    /// Tries the regions in the strategy's order.
    fn search(&self, request: &Request) -> Option<Allocation> {
        if self.config().region.thread_home {
            let home = &self.slots[home(self.slots.len())];
            if home.is_vacant() {
                self.acquire(request, Some(home));
            }
            if home.view(request.kind).is_some()
                && let Some(allocation) = try_slot(home, request)
            {
                return Some(allocation);
            }
        }
        let mut views = [RegionView { slot: 0, free: Bytes::ZERO }; MAX_REGIONS];
        let mut count = 0;
        for view in self.slots.iter().filter_map(|slot| slot.view(request.kind)) {
            views[count] = view;
            count += 1;
        }
        let count = (self.config().region.order)(&mut views[..count], request.size);
        views[..count].iter().find_map(|view| try_slot(&self.slots[view.slot], request))
    }

    /// Everything that can be done for a request that found no room.
    #[cold]
    fn allocate_under_pressure(&self, request: &Request) -> Result<Allocation, AllocateError> {
        self.shared.empty_outboxes();
        if self.acquire(request, None).is_some()
            && let Some(allocation) = self.search(request)
        {
            return Ok(allocation);
        }
        self.shared.count(|counters| counters.alloc_retries += 1);
        self.shared.synchronize();
        if let Some(allocation) = self.search(request).or_else(|| self.after_trim(request)) {
            return Ok(allocation);
        }
        let report = self.shortage(request);
        let callbacks = lock(&self.shared.callbacks).clone();
        if !callbacks.is_empty() {
            callbacks.iter().for_each(|callback| callback(&report));
            self.shared.synchronize();
            if let Some(allocation) = self.search(request).or_else(|| self.after_trim(request)) {
                return Ok(allocation);
            }
        }
        self.shared.count(|counters| counters.ooms += 1);
        let report = self.shortage(request);
        self.shared.record(
            Action::OutOfMemory,
            report.device_free.get(),
            request.size,
            request.stream,
        );
        debug!(target: LOG, requested = request.size.get(), "out of memory");
        Err(AllocateError::OutOfMemory(Box::new(report)))
    }

    /// Gives back what is wholly free if that lets a region be acquired, or memory be committed,
    /// which holds the request.
    fn after_trim(&self, request: &Request) -> Option<Allocation> {
        if request.size > self.longest_block() || self.shared.trim().is_zero() {
            return None;
        }
        self.acquire(request, None);
        self.search(request)
    }

    /// Acquires a region that can hold `request`, for `slot` or the first vacant one.
    fn acquire(&self, request: &Request, slot: Option<&Arc<Slot>>) -> Option<Arc<Slot>> {
        let _turn = self.shared.turn.take();
        if lock(&self.shared.regions).locked {
            return None;
        }
        let vacant = slot.into_iter().chain(self.slots.iter()).find(|slot| slot.is_vacant());
        let Some(slot) = vacant else { return self.lock_regions("as many as may be") };
        let own = self.config().own_regions.contains(&request.kind).then_some(request.kind);
        let handle = self.acquire_from_device(request)?;
        let segment = lock(&self.shared.regions).segments.push(handle.id, handle.size);
        slot.settle_in(handle, own, segment.base);
        self.shared.settle();
        Some(Arc::clone(slot))
    }

    /// Tries the sizes of a region one after the other.
    fn acquire_from_device(&self, request: &Request) -> Option<RegionHandle> {
        let (device, config) = (&self.shared.device, self.config());
        if let Growth::Growable(size) | Growth::Recycle(size) = config.growth {
            let handle = device.try_reserve(size);
            self.after_acquiring(handle.as_ref(), 0);
            return handle.or_else(|| self.lock_regions("nothing can be reserved"));
        }
        // A region that cannot hold the request would not help it.
        let useful =
            config.fallback_sizes.iter().enumerate().filter(|(_, size)| **size >= request.size);
        let mut tried = 0;
        for (level, &size) in useful {
            tried += 1;
            let handle = device.try_acquire(size);
            self.after_acquiring(handle.as_ref(), level);
            if handle.is_some() {
                return handle;
            }
        }
        if tried == config.fallback_sizes.len() {
            return self.lock_regions("all fallback sizes failed");
        }
        None
    }

    fn after_acquiring(&self, handle: Option<&RegionHandle>, level: usize) {
        self.shared.count(|counters| counters.device_allocs += 1);
        if let Some(handle) = handle {
            info!(target: LOG, region = %handle.id, size = handle.size.get(), level, "region acquired");
        } else {
            debug!(target: LOG, level, "region refused");
        }
    }

    fn lock_regions<T>(&self, why: &str) -> Option<T> {
        lock(&self.shared.regions).locked = true;
        info!(target: LOG, why, "regions locked");
        None
    }

    /// The longest block that a region could ever hold.
    fn longest_block(&self) -> Bytes {
        let growing = match self.config().growth {
            Growth::Growable(size) | Growth::Recycle(size) => {
                size.min(self.shared.device.info().total)
            }
            Growth::Fixed => {
                self.config().fallback_sizes.iter().copied().max().unwrap_or(Bytes::ZERO)
            }
        };
        growing.align_down(self.config().alignment)
    }

    /// Says why there is no room for a request.
    fn shortage(&self, request: &Request) -> OutOfMemory {
        let rounded = request.size.align_up(self.config().alignment).unwrap_or(Bytes::MAX);
        let regions: Vec<_> =
            self.slots.iter().filter_map(|slot| slot.report(request.kind)).collect();
        let free: Bytes = regions.iter().map(|region| region.free).sum();
        let largest = regions
            .iter()
            .map(|region| region.largest.min(region.free))
            .max()
            .unwrap_or(Bytes::ZERO);
        let shortage = match () {
            () if rounded > self.longest_block() => Shortage::TooBigForAnyRegion,
            () if free >= rounded => Shortage::Fragmented,
            () => Shortage::Full,
        };
        let info = self.shared.device.info();
        let stats = self.stats();
        let pending =
            stats.get(crate::stats::Quantity::ActiveBytes, crate::stats::Pool::All).current
                - stats.allocated().get();
        OutOfMemory {
            requested: request.size,
            rounded,
            shortage,
            free,
            largest,
            device_free: info.free,
            device_total: info.total,
            longest_block: self.longest_block(),
            regions_locked: self.regions_locked(),
            regions,
            pending: Bytes::new(pending),
        }
    }
}

fn try_slot(slot: &Arc<Slot>, request: &Request) -> Option<Allocation> {
    slot.try_allocate(request).map(|block| Allocation::new(Arc::clone(slot), block.key))
}
