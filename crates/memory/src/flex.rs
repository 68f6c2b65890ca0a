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
//! of others that it frees to pass them on 64 at a time, or when somebody looks at the statistics or
//! runs out of memory. (Peaks then count such a block until it is passed on.) No lock is held while
//! the device, a callback or the streams are called.
//!
//! **When memory runs out** the allocator frees blocks whose streams have passed, acquires another
//! region, waits for streams, gives back what is wholly free (unless the configuration says that it
//! never does), and calls the callbacks ([`FlexAllocator::on_pressure`]), in this order and as far as
//! each applies; then it tries once more and reports ([`OutOfMemory`]).

mod advice;
mod compaction;
mod config;
mod error;
mod granules;
mod handle;
mod history;
mod launch;
mod mail;
mod pressure;
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
pub use config::{Acquire, ConfigError, FlexConfig, Growth, MAX_REGIONS, MIN_ALIGNMENT, Release};
pub use error::{AllocateError, FreeError, OutOfMemory, RegionLimit, RegionReport, Shortage};
pub use handle::{Allocation, Pin};
pub use history::{Action, HistoryEntry};
pub use launch::{Argument, CorrectionBuffer, Launch, LaunchError, Operand, Program, Tiles};
pub use registry::{DeviceIndex, Registry};
pub use segments::{Segment, SegmentId, SegmentTable};
pub use snapshot::{BlockState, Snapshot, SnapshotBlock, SnapshotSegment};
pub use stream::{EventId, StreamEvents};
pub use token::{AllocationToken, TokenBlock};

use crate::Bytes;
use crate::device::{DeviceMemory, RegionHandle, RegionId};
use crate::policy::{Kind, RegionView, Request};
use crate::stats::{Places, Stats};
use crate::sync::{Arc, lock, thread_number};
use shared::{Clock, Shared};
use slot::{LOG, PlacedBlock, Slot};

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

/// The slots of an allocator, by their numbers.
#[derive(Debug)]
struct Slots(Box<[Arc<Slot>]>);

impl Deref for Slots {
    type Target = [Arc<Slot>];
    fn deref(&self) -> &[Arc<Slot>] {
        &self.0
    }
}

/// The last handle to the allocator is gone; blocks may still be there.
impl Drop for Slots {
    fn drop(&mut self) {
        let shared = self.0.first().map(|slot| Arc::clone(&slot.shared));
        shared.expect("an allocator has a slot").close(&self.0);
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
    /// `max_regions` is not from 1 to [`MAX_REGIONS`]. Correct it.
    #[error("`max_regions` is {0}, but must be from 1 to {MAX_REGIONS}")]
    MaxRegions(usize),
    /// `alignment` is no power of two, or less than the device expects. Correct it.
    #[error(
        "`alignment` is {}, but must be a power of two from {} on", .0.get(), MIN_ALIGNMENT.get()
    )]
    Alignment(Bytes),
    /// There are no `fallback_sizes`, or one of them is zero. Correct them.
    #[error("`fallback_sizes` must be at least one size, and none of them zero")]
    NoSize,
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
        check(&config)?;
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
        let slots = (0..count).map(|number| Arc::new(Slot::new(number, Arc::clone(&shared))));
        let slots = Arc::new(Slots(slots.collect()));
        shared.slots.set(Arc::downgrade(&slots)).expect("the slots are set once");
        let allocator = FlexAllocator { shared, slots };
        if let Acquire::Eager(count) = acquire {
            (0..count)
                .take_while(|_| matches!(allocator.acquire(None, None, None), Acquired::Region))
                .for_each(drop);
        }
        Ok(allocator)
    }
}

/// What the text form of a configuration is checked for when it is read.
fn check(config: &FlexConfig) -> Result<(), BuildError> {
    if !(1..=MAX_REGIONS).contains(&config.max_regions) {
        return Err(BuildError::MaxRegions(config.max_regions));
    }
    if !config.alignment.get().is_power_of_two() || config.alignment < MIN_ALIGNMENT {
        return Err(BuildError::Alignment(config.alignment));
    }
    let none = config.fallback_sizes.is_empty();
    if none || config.fallback_sizes.iter().any(|size| size.is_zero()) {
        return Err(BuildError::NoSize);
    }
    Ok(())
}

/// What has come of the wish for another region.
enum Acquired {
    /// It is there, and the request that it was wanted for is in it.
    Placed(Allocation),
    /// It is there; nothing was to be put into it.
    Region,
    /// It was not tried, because others have acquired or released meanwhile: search again.
    Changed,
    /// There is none, or none in which there is memory for the request.
    Refused,
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
        self.shared.tick();
        if !self.shared.see_stream(request.stream) {
            return Err(AllocateError::Reentrant);
        }
        self.shared.poll();
        if self.config().acquire == Acquire::First
            && let Acquired::Placed(allocation) = self.acquire(Some(request), None, None)
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
        let unknown = Err(FreeError::UnknownRegion { address });
        let mut answers = self.slots.iter().map(|slot| slot.free_at(address));
        answers.find(|answer| *answer != unknown).unwrap_or(unknown)
    }

    /// Registers a function to be called when memory has run out and the allocator has done what it
    /// can. It may free blocks, on this thread or another, and trim; the functions are called in the
    /// order in which they were registered, then the request is tried once more. Where one of them
    /// allocates and finds no room either, they are not called again for that.
    pub fn on_pressure(&self, callback: impl Fn(&OutOfMemory) + Send + Sync + 'static) {
        lock(&self.shared.callbacks).push(Arc::new(callback));
    }

    /// Gives everything back to the device that is wholly free, regions and granules, and says how
    /// much that was. From then on regions may be acquired again, also if none was given back: the
    /// device may have got room in other ways, and an allocator that was refused its first region
    /// would be of no use for ever. A device that trims while it is called is told zero; what is free
    /// goes back when the call has returned.
    pub fn trim(&self) -> Bytes {
        self.shared.poll();
        let bytes = self.shared.trim();
        lock(&self.shared.regions).refused = false;
        bytes
    }

    /// Waits until no freed block waits for a stream any more.
    pub fn synchronize(&self) {
        self.shared.synchronize();
    }

    /// The statistics at this moment.
    pub fn stats(&self) -> Stats {
        self.shared.stats(&self.slots)
    }

    /// Takes what is there now for the peaks.
    pub fn reset_peak_stats(&self) {
        self.shared.reset_peaks(&self.slots);
    }

    /// Sets what came and went, and the counters, to zero.
    pub fn reset_accumulated_stats(&self) {
        self.shared.reset_accumulated(&self.slots);
    }

    /// The segment table at this moment.
    pub fn segment_table(&self) -> SegmentTable {
        lock(&self.shared.regions).segments.table()
    }

    /// Whether no further region is acquired: all sizes failed, or there are as many as `max_regions`
    /// or the segment table has room for. [`trim`](Self::trim) can change that.
    pub fn regions_locked(&self) -> bool {
        self.limit() != RegionLimit::Open
    }

    /// Whether this thread is inside a function of the device or of the streams that the allocator has
    /// called. From there, blocks can be freed, looked at, and allocated where there is room.
    pub fn is_calling_out(&self) -> bool {
        self.shared.is_calling() || self.slots.iter().any(|slot| slot.is_calling())
    }

    /// Whether this thread is inside a callback for memory that ran out
    /// ([`on_pressure`](Self::on_pressure)): a request is under way.
    pub fn is_calling_back(&self) -> bool {
        self.shared.is_calling_back()
    }

    /// What keeps it from acquiring a region.
    fn limit(&self) -> RegionLimit {
        let regions = lock(&self.shared.regions);
        let entries = regions.segments.len();
        match () {
            () if !self.slots.iter().any(|slot| slot.is_vacant()) => {
                RegionLimit::MaxRegions(self.slots.len())
            }
            () if !regions.segments.has_room() && regions.segments.is_held() => {
                RegionLimit::Launches(entries)
            }
            () if !regions.segments.has_room() => RegionLimit::Table(entries),
            () if regions.refused => RegionLimit::Device,
            () => RegionLimit::Open,
        }
    }

    /// The regions in figures, the oldest first.
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

    /// Tries the regions in the strategy's order.
    fn search(&self, request: &Request) -> Option<Allocation> {
        if self.config().region.thread_home {
            let home = &self.slots[thread_number() % self.slots.len()];
            if home.is_vacant()
                && let Acquired::Placed(allocation) = self.acquire(Some(request), Some(home), None)
            {
                return Some(allocation);
            }
            if home.view(request.kind).is_some()
                && let Some(allocation) = home.try_allocate(request)
            {
                return Some(allocation);
            }
        }
        self.search_by(request, Slot::try_allocate)
    }

    fn search_by(
        &self,
        request: &Request,
        place: fn(&Arc<Slot>, &Request) -> Option<Allocation>,
    ) -> Option<Allocation> {
        let mut views = [RegionView { slot: 0, free: Bytes::ZERO }; MAX_REGIONS];
        let mut count = 0;
        for view in self.slots.iter().filter_map(|slot| slot.view(request.kind)) {
            views[count] = view;
            count += 1;
        }
        let views = &mut views[..count];
        // Slots are filled in their order, so only a slot that was used again is out of it.
        let since = |view: &RegionView| self.slots[view.slot].since();
        if !views.is_sorted_by_key(since) {
            views.sort_by_key(since);
        }
        let count = (self.config().region.order)(views, request.size);
        views[..count].iter().find_map(|view| place(&self.slots[view.slot], request))
    }

    /// Acquires a region, for `home` or the first vacant slot, and puts `request` into it, unless
    /// more has changed than `seen`. The block is placed before anybody can give the region back.
    fn acquire(
        &self,
        request: Option<&Request>,
        home: Option<&Arc<Slot>>,
        seen: Option<u64>,
    ) -> Acquired {
        let Some(turn) = self.shared.turn.take() else { return Acquired::Refused };
        let acquired = self.acquire_in_turn(request, home, seen);
        drop(turn);
        self.shared.after_turn();
        acquired
    }

    fn acquire_in_turn(
        &self,
        request: Option<&Request>,
        home: Option<&Arc<Slot>>,
        seen: Option<u64>,
    ) -> Acquired {
        let taken = home.is_some_and(|home| !home.is_vacant());
        if taken || seen.is_some_and(|seen| seen != self.shared.changes()) {
            return Acquired::Changed;
        }
        if self.regions_locked() {
            return Acquired::Refused;
        }
        let vacant = home.or_else(|| self.slots.iter().find(|slot| slot.is_vacant()));
        let Some(slot) = vacant else { return Acquired::Refused };
        let Some(placed) = self.settle_region(slot, request) else { return Acquired::Refused };
        let acquired = match (slot.complete_place(placed), request) {
            (Some(block), _) => Acquired::Placed(Allocation::new(Arc::clone(slot), block.key)),
            (None, None) => Acquired::Region,
            // There is no memory to commit, and the region of no use, unless others use it already.
            (None, Some(_)) if self.shared.release(slot).is_some() => return Acquired::Refused,
            (None, Some(_)) => Acquired::Refused,
        };
        self.shared.note_change();
        if let limit @ (RegionLimit::MaxRegions(_) | RegionLimit::Table(_)) = self.limit() {
            info!(target: LOG, why = %limit, "regions locked");
        }
        acquired
    }

    /// Puts a new region into a vacant slot, and the request into the region.
    fn settle_region(&self, slot: &Arc<Slot>, request: Option<&Request>) -> Option<PlacedBlock> {
        let kind = request.map_or(Kind::Tensor, |request| request.kind);
        let own = self.config().own_regions.contains(&kind).then_some(kind);
        let handle = self.acquire_from_device(request)?;
        let Some(age) = self.enter_segment(&handle) else {
            self.shared.device.release(handle);
            return self.lock_regions("no flat addresses are free");
        };
        self.shared.tick();
        let placed = slot.settle_in(handle, own, age, request);
        self.shared.settle(Places::ALL);
        Some(placed)
    }

    /// Enters a region into the segment table. Returns where it begins in the flat address space, and
    /// its number among all that came.
    fn enter_segment(&self, handle: &RegionHandle) -> Option<(u64, u64)> {
        let mut regions = lock(&self.shared.regions);
        let segment = regions.segments.push(handle.id, handle.size)?;
        regions.acquired += 1;
        Some((segment.base, regions.acquired))
    }

    /// Tries the sizes of a region one after the other.
    fn acquire_from_device(&self, request: Option<&Request>) -> Option<RegionHandle> {
        let (device, config) = (&self.shared.device, self.config());
        if let Growth::Growable(size) | Growth::Recycle(size) = config.growth {
            if request.is_some_and(|request| self.rounded(request) > self.longest_block()) {
                return None;
            }
            let size = size.align_up(self.shared.granule);
            let handle = size.and_then(|size| device.try_reserve(size));
            self.after_acquiring(handle.as_ref(), 0);
            return handle.or_else(|| self.lock_regions("nothing can be reserved"));
        }
        // A region that cannot hold the request would not help it.
        let least = request.map_or(config.alignment, |request| self.rounded(request));
        let sizes = config.fallback_sizes.iter().map(|size| size.align_down(config.alignment));
        let mut tried = 0;
        for (level, size) in sizes.enumerate().filter(|&(_, size)| size >= least) {
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
        if let Some(handle) = handle {
            self.shared.count(|counters| counters.device_allocs += 1);
            info!(target: LOG, region = %handle.id, size = handle.size.get(), level, "region acquired");
        } else {
            debug!(target: LOG, level, "region refused");
        }
    }

    fn lock_regions<T>(&self, why: &str) -> Option<T> {
        lock(&self.shared.regions).refused = true;
        info!(target: LOG, why, "regions locked");
        None
    }

    /// The longest block that a region could ever hold.
    fn longest_block(&self) -> Bytes {
        let (config, total) = (self.config(), self.shared.total);
        let longest = match config.growth {
            Growth::Growable(size) | Growth::Recycle(size) => Some(size.min(total)),
            Growth::Fixed => {
                config.fallback_sizes.iter().copied().filter(|&size| size <= total).max()
            }
        };
        longest.unwrap_or(Bytes::ZERO).align_down(config.alignment)
    }

    /// What a request takes.
    fn rounded(&self, request: &Request) -> Bytes {
        request.size.align_up(self.config().alignment).unwrap_or(Bytes::MAX)
    }
}
