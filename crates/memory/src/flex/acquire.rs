//! Acquiring regions from the device.

use tracing::{debug, info};

use super::config::Growth;
use super::error::RegionLimit;
use super::region::PlacedBlock;
use super::slots::{LOG, RegionTurn, Slot};
use super::{Allocation, FlexAllocator};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::policy::{Kind, Request};
use crate::stats::Places;
use crate::sync::{Arc, lock};

pub(super) enum Acquired {
    /// The region was acquired and holds the request.
    Placed(Allocation),
    /// The region was acquired without a request.
    Region,
    /// Not tried, because other threads have acquired or released regions in the meantime: search again.
    Changed,
    /// No region was acquired, or the region has no memory for the request.
    Refused,
}

struct NoRegion;

impl FlexAllocator {
    /// Acquires a region for `home` or the first vacant slot and places `request` in it, unless the regions have
    /// changed since `seen`. The block is placed before any thread can release the region. The request is refused
    /// without the turn, that is, inside a call to the device.
    pub(super) fn acquire(
        &self,
        turn: Option<&RegionTurn<'_>>,
        request: Option<&Request>,
        home: Option<&Arc<Slot>>,
        seen: Option<u64>,
    ) -> Acquired {
        let taken = home.is_some_and(|home| !home.is_vacant());
        if turn.is_some() && (taken || seen.is_some_and(|seen| seen != self.shared.changes())) {
            return Acquired::Changed;
        }
        if turn.is_none() || self.regions_locked() {
            return Acquired::Refused;
        }
        let vacant = home.or_else(|| self.slots.iter().find(|slot| slot.is_vacant()));
        let Some(slot) = vacant else { return Acquired::Refused };
        let Ok(placed) = self.settle_region(slot, request) else { return Acquired::Refused };
        let key = placed.and_then(|placed| slot.complete_place(placed));
        let acquired = match (key, request) {
            (Some(key), _) => Acquired::Placed(Allocation::new((Arc::clone(slot), key))),
            (None, None) => Acquired::Region,
            // There is no memory to commit, so the region is useless unless other threads already use it.
            (None, Some(_)) if self.shared.release(slot).is_some() => return Acquired::Refused,
            (None, Some(_)) => Acquired::Refused,
        };
        self.shared.note_change();
        if let limit @ (RegionLimit::MaxRegions(_) | RegionLimit::Table(_)) = self.limit() {
            info!(target: LOG, why = %limit, "regions locked");
        }
        acquired
    }

    fn settle_region(
        &self,
        slot: &Arc<Slot>,
        request: Option<&Request>,
    ) -> Result<Option<PlacedBlock>, NoRegion> {
        let kind = request.map_or(Kind::Tensor, |request| request.kind);
        let own = self.config().own_regions.contains(&kind).then_some(kind);
        let handle = self.acquire_from_device(request).ok_or(NoRegion)?;
        let Some(age) = self.enter_segment(&handle) else {
            self.shared.device.release(handle);
            self.lock_regions("no flat addresses are free");
            return Err(NoRegion);
        };
        self.shared.journal.tick();
        let placed = slot.settle_in(handle, own, age, request);
        self.shared.settle(Places::ALL);
        Ok(placed)
    }

    /// Enters a region into the segment table. Returns its start in the flat address space and its serial number among
    /// all regions acquired so far.
    pub(super) fn enter_segment(&self, handle: &RegionHandle) -> Option<(u64, u64)> {
        let mut regions = lock(&self.shared.regions);
        let segment = regions.segments.push(handle.id, handle.size)?;
        regions.acquired += 1;
        Some((segment.base, regions.acquired))
    }

    fn acquire_from_device(&self, request: Option<&Request>) -> Option<RegionHandle> {
        let (device, config) = (&self.shared.device, self.config());
        if let Growth::Growable(size) | Growth::Recycle(size) = config.growth {
            if request.is_some_and(|request| self.rounded(request) > self.longest_block()) {
                return None;
            }
            let size = size.align_up(self.shared.granule);
            let handle = size.and_then(|size| device.try_reserve(size));
            self.after_acquiring(handle.as_ref(), 0);
            if handle.is_none() {
                self.lock_regions("the device cannot reserve a region");
            }
            return handle;
        }
        // A region that cannot hold the request is not acquired.
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
            self.lock_regions("all fallback sizes failed");
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

    fn lock_regions(&self, why: &str) {
        lock(&self.shared.regions).refused = true;
        info!(target: LOG, why, "regions locked");
    }

    pub(super) fn limit(&self) -> RegionLimit {
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

    pub(super) fn longest_block(&self) -> Bytes {
        let (config, total) = (self.config(), self.shared.total);
        let longest = match config.growth {
            Growth::Growable(size) | Growth::Recycle(size) => Some(size.min(total)),
            Growth::Fixed => {
                config.fallback_sizes.iter().copied().filter(|&size| size <= total).max()
            }
        };
        longest.unwrap_or(Bytes::ZERO).align_down(config.alignment)
    }

    pub(super) fn rounded(&self, request: &Request) -> Bytes {
        request.size.align_up(self.config().alignment).unwrap_or(Bytes::MAX)
    }
}
