//! Taking a still of an allocator for a request that found no room.

use std::sync::OnceLock;

use super::FlexAllocator;
use super::config::{Acquire, FlexConfig};
use super::error::RegionLimit;
use super::pools::PoolState;
use super::slots::Slot;
use super::still::{self, MAX_BLOCKS, Still, StillDevice, StillPool, StillRegion};
use crate::Bytes;
use crate::device::MemoryInfo;
use crate::policy::{Request, TagId};
use crate::sync::lock;

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
        let pooled = !self.shared.pools.is_empty();
        let history =
            history.and_then(|entries| still::replayable(&entries, &regions, &config, pooled));
        let device = self.still_device(&regions, limit, info);
        let at_ease = self.was_at_ease();
        // Tags do not change places, and a replica has none.
        let (request, tried) = (Request { tag: TagId::NONE, ..*request }, OnceLock::new());
        let pools = self.shared.pools.all();
        let still = |pool: &PoolState| StillPool {
            id: pool.id,
            name: pool.name.clone(),
            limit: pool.limit(),
        };
        let pools = pools.iter().map(|pool| still(pool)).collect();
        Some(Still { request, config, device, regions, pools, at_ease, history, tried })
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
