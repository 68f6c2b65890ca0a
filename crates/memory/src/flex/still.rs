//! A still: the blocks, settings and limits of an allocator at the moment a request found no room. Remedies are tried
//! on replicas of it, so the allocator itself is neither locked nor changed.

mod events;
mod window;

use std::sync::OnceLock;

use super::config::FlexConfig;
use super::remedy::Tried;
use crate::Bytes;
use crate::device::RegionId;
use crate::policy::{Kind, Request};
pub(super) use events::{Event, replayable};

/// Maximum number of live blocks in a still. Above it no still is taken, and no remedy is tried.
pub(crate) const MAX_BLOCKS: usize = 10_000;
/// Maximum number of events in the history of a still. A longer history is not replayed.
pub(crate) const MAX_EVENTS: usize = 50_000;

/// State of an allocator when a request found no room.
#[derive(Clone, Debug)]
pub(crate) struct Still {
    pub(super) request: Request,
    pub(super) config: FlexConfig,
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

impl StillBlock {
    pub(crate) fn is_live(&self) -> bool {
        self.state != StillState::Pending
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
