//! A still: the blocks, settings and limits of an allocator at the moment a request found no room. Remedies are tried
//! on replicas of it, so the allocator itself is neither locked nor changed.

mod events;
mod replica;
mod streams;
mod window;

use std::sync::OnceLock;

use super::FlexAllocator;
use super::config::{Acquire, FlexConfig};
use super::error::RegionLimit;
use super::remedy::Tried;
use super::slots::Slot;
use crate::Bytes;
use crate::device::{MemoryInfo, RegionId};
use crate::policy::{Kind, Request};
use crate::sync::lock;
use events::Event;
pub(super) use replica::Figures;

/// Maximum number of live blocks in a still. Above it no still is taken, and no remedy is tried.
pub(crate) const MAX_BLOCKS: usize = 10_000;
/// Maximum number of events in the history of a still. A longer history is not replayed.
pub(crate) const MAX_EVENTS: usize = 50_000;

/// State of an allocator when a request found no room.
#[derive(Clone, Debug)]
pub(crate) struct Still {
    pub(super) request: Request,
    pub(super) config: FlexConfig,
    pub(super) limit: RegionLimit,
    pub(super) device: StillDevice,
    /// Regions, oldest first.
    pub(super) regions: Vec<StillRegion>,
    /// Whether all earlier requests found room at once. Then another limit would not have changed their places.
    pub(super) at_ease: bool,
    /// All events that led to the blocks, if they were recorded.
    pub(super) history: Option<Vec<Event>>,
    /// Outcome of the trials, once they were made.
    pub(super) tried: OnceLock<Tried>,
}

/// The allocator's share of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct StillDevice {
    /// Total memory of the device.
    pub(super) total: Bytes,
    /// Memory of the allocator's regions, and memory that the device has free for more.
    pub(super) memory: Bytes,
    /// Granule in which memory is committed; `None` if the device cannot.
    pub(super) granule: Option<Bytes>,
    /// Number of regions that the tables of the device and the allocator can hold now.
    pub(super) entries: usize,
    /// The same number after all launches were dropped.
    pub(super) entries_without_launches: usize,
}

/// A region of a still.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StillRegion {
    pub(crate) slot: usize,
    pub(crate) since: u64,
    pub(crate) id: RegionId,
    pub(crate) size: Bytes,
    pub(crate) reserved: Bytes,
    /// The only kind of block that the region accepts; `None` for any.
    pub(crate) kind: Option<Kind>,
    /// Committed parts of a growable region, as offsets and sizes.
    pub(crate) committed: Vec<(Bytes, Bytes)>,
    /// Start in the flat address space.
    pub(crate) base: u64,
    /// Blocks in address order.
    pub(crate) blocks: Vec<StillBlock>,
}

/// A block of a still.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StillBlock {
    pub(crate) offset: Bytes,
    /// Request that the block was allocated for. The call site is unknown.
    pub(crate) request: Request,
    /// Serial number of the allocation in the region.
    pub(crate) serial: u32,
    pub(crate) state: StillState,
}

/// Freedom of a block in a still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StillState {
    /// The block has an owner, and compaction may move it.
    Movable,
    /// The block stays in place.
    Fixed,
    /// The block was freed and waits for a stream.
    Pending,
}

/// Stills are compared by what was requested and where the blocks lie.
impl PartialEq for Still {
    fn eq(&self, other: &Self) -> bool {
        (self.request, &self.regions) == (other.request, &other.regions)
    }
}

impl Eq for Still {}

impl FlexAllocator {
    /// Takes a still for a request that found no room, with all regions locked. Returns `None` if there are too many
    /// blocks.
    pub(super) fn still(
        &self,
        request: &Request,
        limit: RegionLimit,
        info: MemoryInfo,
    ) -> Option<Still> {
        self.shared.collect_posts();
        let mut states: Vec<_> = self.slots.iter().map(Slot::enter).collect();
        let live = states.iter().filter_map(|state| state.region.get());
        if live.map(|region| region.index.live_blocks()).sum::<usize>() > MAX_BLOCKS {
            return None;
        }
        let slots = self.slots.iter().zip(&mut states);
        let regions = slots.filter_map(|(slot, state)| slot.still(&mut state.region));
        let mut regions: Vec<_> = regions.collect();
        let history = self.shared.journal.is_kept().then(|| self.shared.journal.entries().0);
        drop(states);
        regions.sort_by_key(|region| region.since);
        let config = FlexConfig { history: 0, ..self.config().clone() };
        let history = history.and_then(|entries| events::replayable(&entries, &regions, &config));
        let device = self.still_device(&regions, limit, info);
        let at_ease = self.was_at_ease();
        let (request, tried) = (*request, OnceLock::new());
        Some(Still { request, config, limit, device, regions, at_ease, history, tried })
    }

    /// Returns whether the request under way is the first that needed more than a free range or another region.
    fn was_at_ease(&self) -> bool {
        let mut retries = 0;
        self.shared.count(|counters| retries = counters.alloc_retries);
        let asks_late = self.config().acquire == Acquire::Lazy && !self.config().region.thread_home;
        retries <= 1 && asks_late
    }

    fn still_device(
        &self,
        regions: &[StillRegion],
        limit: RegionLimit,
        info: MemoryInfo,
    ) -> StillDevice {
        let reserved: Bytes = regions.iter().map(|region| region.reserved).sum();
        let (entries, vacant) = {
            let segments = &lock(&self.shared.regions).segments;
            (segments.len(), segments.vacant())
        };
        let left = self.shared.device.table().map_or(usize::MAX, |table| table.free);
        // A device that has refused a size although it has the memory may refuse it again.
        let smallest = self.config().fallback_sizes.iter().min();
        let doubtful =
            limit == RegionLimit::Device && smallest.is_some_and(|&size| size <= info.free);
        let free = if doubtful { Bytes::ZERO } else { info.free };
        StillDevice {
            total: info.total,
            memory: reserved.checked_add(free).unwrap_or(Bytes::MAX),
            granule: self.shared.device.granule(),
            entries: regions.len() + vacant.min(left),
            entries_without_launches: regions.len()
                + entries.saturating_sub(regions.len()).min(left),
        }
    }
}

impl Still {
    /// Returns whether freed blocks wait for a stream.
    pub(super) fn is_pending(&self) -> bool {
        let mut blocks = self.regions.iter().flat_map(|region| &region.blocks);
        blocks.any(|block| block.state == StillState::Pending)
    }

    /// Returns whether the request may be placed in a region.
    fn accepts(&self, region: &StillRegion) -> bool {
        let own = self.config.own_regions.contains(&self.request.kind);
        region.kind == own.then_some(self.request.kind)
    }
}
