//! A still: the blocks, settings and limits of an allocator at the moment a request found no room. Remedies are tried
//! on replicas of it, so the allocator itself is neither locked nor changed.

mod events;
mod window;

use std::sync::OnceLock;

use super::config::{FlexConfig, Growth};
use super::pools::Domain;
use super::remedy::Tried;
use crate::Bytes;
use crate::device::RegionId;
use crate::policy::{PoolId, Request};
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
    /// Pools besides the default one, with their limits.
    pub(super) pools: Vec<StillPool>,
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

/// A pool of a still.
#[derive(Clone, Debug)]
pub(super) struct StillPool {
    pub(super) id: PoolId,
    pub(super) name: String,
    pub(super) limit: Option<Bytes>,
}

/// A region of a still.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StillRegion {
    pub(crate) slot: usize,
    pub(crate) since: u64,
    pub(crate) id: RegionId,
    pub(crate) size: Bytes,
    pub(crate) reserved: Bytes,
    /// Blocks that the region accepts, and its pool.
    pub(crate) domain: Domain,
    pub(crate) pool: PoolId,
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
    /// The block has an owner and no memory.
    Paused,
}

/// Stills are compared by what was requested and where the blocks lie.
impl PartialEq for Still {
    fn eq(&self, other: &Self) -> bool {
        (self.request, &self.regions) == (other.request, &other.regions)
    }
}

impl Eq for Still {}

impl StillBlock {
    /// Returns whether the block has an owner and memory.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.state, StillState::Movable | StillState::Fixed)
    }
}

impl Still {
    /// Returns whether freed blocks wait for a stream.
    pub(super) fn is_pending(&self) -> bool {
        let mut blocks = self.regions.iter().flat_map(|region| &region.blocks);
        blocks.any(|block| block.state == StillState::Pending)
    }

    /// Returns the request's pool, if it has a limit, and the limits to try instead: with room for the request, and with
    /// room for the granules around it.
    pub(super) fn higher_limits(&self) -> Option<(&StillPool, Vec<Bytes>)> {
        let pool = self.pools.iter().find(|pool| pool.id == self.request.pool)?;
        let limit = pool.limit?;
        let regions = self.regions.iter().filter(|region| region.pool == pool.id);
        let reserved: Bytes = regions.map(|region| region.reserved).sum();
        let growable = self.config.growth != Growth::Fixed;
        let granule = self.device.granule.filter(|_| growable).unwrap_or(self.config.alignment);
        let enough = reserved.checked_add(self.request.size.align_up(granule)?)?;
        let limits = [Some(enough), enough.checked_add(granule)].into_iter().flatten();
        Some((pool, limits.filter(|&higher| higher > limit).collect()))
    }

    /// Returns whether the request may be placed in a region.
    fn accepts(&self, region: &StillRegion) -> bool {
        region.domain == Domain::of(&self.request, &self.config)
    }
}
