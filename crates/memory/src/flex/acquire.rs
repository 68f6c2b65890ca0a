//! Acquiring regions from the device.

use tracing::{debug, info};

use super::config::{Growth, Refusal, Sizes};
use super::error::RegionLimit;
use super::pools::{Domain, PoolState};
use super::region::PlacedBlock;
use super::slots::{LOG, RegionTurn, Slot};
use super::{Allocation, FlexAllocator};
use crate::Bytes;
use crate::device::{RegionHandle, RegionId};
use crate::policy::{PoolId, Request};
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
    /// The device returned a region that it had provided before.
    Repeated(RegionId),
}

enum NoRegion {
    Refused,
    Repeated(RegionId),
}

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
        if turn.is_none() || self.is_asking_pointless() {
            return Acquired::Refused;
        }
        let vacant = home.or_else(|| self.slots.iter().find(|slot| slot.is_vacant()));
        let Some(slot) = vacant else { return Acquired::Refused };
        let placed = match self.settle_region(slot, request) {
            Ok(placed) => placed,
            Err(NoRegion::Refused) => return Acquired::Refused,
            Err(NoRegion::Repeated(region_id)) => return Acquired::Repeated(region_id),
        };
        let site = request.map_or(0, |request| request.site);
        let key = placed.and_then(|placed| slot.complete_place(placed, site));
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

    /// Returns whether the device is not to be asked for a region.
    fn is_asking_pointless(&self) -> bool {
        match self.limit() {
            RegionLimit::Open => false,
            RegionLimit::Device => self.config().refusal == Refusal::Lock,
            _ => true,
        }
    }

    fn settle_region(
        &self,
        slot: &Arc<Slot>,
        request: Option<&Request>,
    ) -> Result<Option<PlacedBlock>, NoRegion> {
        let pool = self.acquiring_pool(request)?;
        let any = Request::new(Bytes::ZERO);
        let domain = Domain::of(request.unwrap_or(&any), self.config());
        let handle = self.acquire_from_device(request, pool.as_deref());
        let handle = handle.ok_or(NoRegion::Refused)?;
        let size = handle.size;
        let settled = self.settle_handle(slot, handle, (domain, pool.clone()), request);
        if settled.is_err() && !self.is_growable() {
            pool.inspect(|pool| pool.put_back(size));
        }
        settled
    }

    /// Returns the pool that a region is acquired for; `None` for the default pool. Refuses a pool that was closed.
    fn acquiring_pool(
        &self,
        request: Option<&Request>,
    ) -> Result<Option<Arc<PoolState>>, NoRegion> {
        match request.map_or(PoolId::DEFAULT, |request| request.pool) {
            PoolId::DEFAULT => Ok(None),
            id => self.shared.pools.get(id).map(Some).ok_or(NoRegion::Refused),
        }
    }

    /// Puts an acquired region into a slot, and places the request in it.
    fn settle_handle(
        &self,
        slot: &Arc<Slot>,
        handle: RegionHandle,
        owner: (Domain, Option<Arc<PoolState>>),
        request: Option<&Request>,
    ) -> Result<Option<PlacedBlock>, NoRegion> {
        if lock(&self.shared.regions).segments.has(handle.id) {
            info!(target: LOG, region = %handle.id, "region returned twice");
            return Err(NoRegion::Repeated(handle.id));
        }
        let Some(age) = self.enter_segment(&handle) else {
            self.shared.device.release(handle);
            self.lock_regions("no flat addresses are free");
            return Err(NoRegion::Refused);
        };
        self.shared.journal.tick();
        let placed = slot.settle_in(handle, owner, age, request);
        self.shared.settle(Places::ALL);
        Ok(placed)
    }

    /// Enters a region into the segment table. Returns its start in the flat address space and its serial number among
    /// all regions acquired so far.
    pub(super) fn enter_segment(&self, handle: &RegionHandle) -> Option<(u64, u64)> {
        let mut regions = lock(&self.shared.regions);
        let segment = regions.segments.push(handle.id, handle.size)?;
        regions.acquired += 1;
        regions.refused = false;
        Some((segment.base, regions.acquired))
    }

    /// Acquires a region for a request. The sizes that the limit of `pool` forbids are left out. If it forbids all of
    /// them, the region is the rest of the limit.
    fn acquire_from_device(
        &self,
        request: Option<&Request>,
        pool: Option<&PoolState>,
    ) -> Option<RegionHandle> {
        let config = self.config();
        let least = request.map_or(config.alignment, |request| self.rounded(request));
        let bounded = self.is_growable() || config.sizes != Sizes::Listed;
        if bounded && least > self.longest_block() {
            return None;
        }
        let left = pool.and_then(PoolState::left);
        if left.is_some_and(|left| left < least) {
            return None;
        }
        // Addresses alone need no memory.
        let left = left.filter(|_| !self.is_growable());
        let listed = self.configured_sizes();
        // A region that cannot hold the request is not acquired.
        let mut fitting: Vec<_> =
            listed.iter().copied().enumerate().filter(|&(_, size)| size >= least).collect();
        if let Some(left) = left {
            let any = !fitting.is_empty();
            fitting.retain(|&(_, size)| size <= left);
            if any && fitting.is_empty() {
                return self.try_size(listed.len(), left.align_down(self.size_unit()), pool);
            }
        }
        let try_sizes = |sizes: &[(usize, Bytes)]| {
            sizes.iter().find_map(|&(level, size)| self.try_size(level, size, pool))
        };
        let handle = match config.sizes {
            Sizes::Listed => try_sizes(&fitting),
            Sizes::Fitted => try_sizes(&fitting).or_else(|| {
                let smallest = fitting.iter().map(|&(_, size)| size).min();
                self.try_size(listed.len(), self.fitted_size(least, smallest)?, pool)
            }),
            Sizes::All => {
                let all = self.free_on_device(least);
                let all = all.map(|all| left.map_or(all, |left| all.min(left)));
                let all = all.map(|all| all.align_down(self.size_unit()));
                let handle = all.and_then(|all| self.try_size(0, all, pool));
                handle.or_else(|| try_sizes(&fitting))
            }
        };
        if handle.is_none() && fitting.len() == listed.len() {
            self.lock_regions("the device has refused all sizes");
        }
        handle
    }

    fn is_growable(&self) -> bool {
        self.config().growth != Growth::Fixed
    }

    /// Returns the configured sizes of a region, in order.
    fn configured_sizes(&self) -> Vec<Bytes> {
        let config = self.config();
        match config.growth {
            Growth::Growable(size) | Growth::Recycle(size) => {
                size.align_up(self.shared.granule).into_iter().collect()
            }
            Growth::Fixed => {
                let sizes = config.fallback_sizes.iter();
                sizes.map(|size| size.align_down(config.alignment)).collect()
            }
        }
    }

    /// Returns the unit of region sizes that are not configured.
    fn size_unit(&self) -> Bytes {
        if self.is_growable() { self.shared.granule } else { self.config().alignment }
    }

    /// Returns the size of a region for a request that no configured size serves. `smallest` is the smallest configured
    /// size that could hold it; the device has refused that size. If the device has as much free nevertheless, it has
    /// failed for another reason, and a larger region would not help.
    fn fitted_size(&self, least: Bytes, smallest: Option<Bytes>) -> Option<Bytes> {
        match smallest {
            None => least.align_up(self.size_unit()),
            Some(smallest) => self.free_on_device(least).filter(|&free| free < smallest),
        }
    }

    /// Returns the free memory of the device as a size of a region, if it is at least `least`.
    fn free_on_device(&self, least: Bytes) -> Option<Bytes> {
        let free = self.shared.device.info().free.align_down(self.size_unit());
        Some(free).filter(|&free| free >= least)
    }

    fn try_size(
        &self,
        level: usize,
        size: Bytes,
        pool: Option<&PoolState>,
    ) -> Option<RegionHandle> {
        let device = &self.shared.device;
        let handle =
            if self.is_growable() { device.try_reserve(size) } else { self.try_fixed(size, pool) };
        self.after_acquiring(handle.as_ref(), level, pool);
        handle
    }

    /// Acquires a region of fixed size within the limit of its pool.
    fn try_fixed(&self, size: Bytes, pool: Option<&PoolState>) -> Option<RegionHandle> {
        if pool.is_some_and(|pool| !pool.take(size)) {
            return None;
        }
        let handle = self.shared.device.try_acquire(size);
        if let Some(pool) = pool {
            // The device may provide more than it was asked for.
            pool.hold(handle.as_ref().map_or(Bytes::ZERO, |handle| handle.size));
            pool.put_back(size);
        }
        handle
    }

    fn after_acquiring(
        &self,
        handle: Option<&RegionHandle>,
        level: usize,
        pool: Option<&PoolState>,
    ) {
        if let Some(handle) = handle {
            self.shared.count_in(pool, |counters| counters.device_allocs += 1);
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
        if config.sizes != Sizes::Listed {
            return total.align_down(self.size_unit());
        }
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
