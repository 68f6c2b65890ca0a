//! A strict device: it checks every call against the regions it handed out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, DeviceMemory, MemoryInfo, RegionHandle, RegionId, TableInfo,
};

/// Wraps a device and panics when the allocator violates the contract of [`DeviceMemory`]: a size of zero, parts
/// outside a region or not aligned to the granule, memory committed or decommitted twice, or concurrent calls that must
/// be sequential.
pub(crate) struct Strict<D> {
    inner: D,
    regions: Mutex<BTreeMap<RegionId, Region>>,
    /// Whether a thread is acquiring, reserving or releasing.
    busy: AtomicBool,
    /// Whether other threads get a chance to call at the same time.
    yields: bool,
}

struct Region {
    size: Bytes,
    /// Committed granules; `None` for a region that has all its memory from the start.
    committed: Option<BTreeSet<u64>>,
    busy: bool,
}

impl<D: DeviceMemory> Strict<D> {
    pub(crate) fn new(inner: D) -> Self {
        Self { inner, regions: Mutex::default(), busy: AtomicBool::new(false), yields: true }
    }

    /// Wraps a device that one thread uses.
    pub(crate) fn for_one_thread(inner: D) -> Self {
        Self { yields: false, ..Self::new(inner) }
    }

    /// Returns the wrapped device.
    pub(crate) fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the number of live regions.
    pub(crate) fn regions(&self) -> usize {
        self.regions.lock().unwrap().len()
    }

    /// Returns whether a part of a region has memory.
    pub(crate) fn is_backed(&self, region: RegionId, start: u64, end: u64) -> bool {
        let regions = self.regions.lock().unwrap();
        let Some(region) = regions.get(&region) else { return false };
        let Some(committed) = &region.committed else { return end <= region.size.get() };
        let granule = self.inner.granule().expect("only growable devices commit").get();
        let mut granules = (start / granule * granule..end).step_by(granule as usize);
        granules.all(|place| committed.contains(&place))
    }

    fn alone<T>(&self, call: impl FnOnce() -> T) -> T {
        assert!(
            !self.busy.swap(true, Ordering::AcqRel),
            "two threads acquire or release at a time"
        );
        if self.yields {
            std::thread::yield_now();
        }
        let answer = call();
        self.busy.store(false, Ordering::Release);
        answer
    }

    fn keep(&self, handle: &RegionHandle, committed: Option<BTreeSet<u64>>) {
        let region = Region { size: handle.size, committed, busy: false };
        let before = self.regions.lock().unwrap().insert(handle.id, region);
        assert!(before.is_none(), "{} is handed out twice", handle.id);
    }

    /// Starts a change of committed memory; `present` is the required state before the change.
    fn begin(&self, handle: &RegionHandle, offset: Bytes, size: Bytes, present: bool) {
        let granule = self.inner.granule().expect("only growable devices commit").get();
        assert!(offset.get().is_multiple_of(granule) && size.get().is_multiple_of(granule));
        assert!(!size.is_zero(), "nothing is committed or taken away");
        let mut regions = self.regions.lock().unwrap();
        let region = regions.get_mut(&handle.id).expect("the region is out");
        assert!(offset + size <= region.size, "beyond the end of the region");
        assert!(!region.busy, "two threads commit or decommit at a time");
        region.busy = true;
        let committed = region.committed.as_ref().expect("a reserved region");
        for place in (offset.get()..(offset + size).get()).step_by(granule as usize) {
            assert_eq!(committed.contains(&place), present, "granule at {place:#x}");
        }
    }

    fn end(&self, handle: &RegionHandle, offset: Bytes, size: Bytes, present: Option<bool>) {
        let granule = self.inner.granule().expect("only growable devices commit").get() as usize;
        let mut regions = self.regions.lock().unwrap();
        let region = regions.get_mut(&handle.id).expect("the region is out");
        region.busy = false;
        let committed = region.committed.as_mut().expect("a reserved region");
        for place in (offset.get()..(offset + size).get()).step_by(granule) {
            match present {
                Some(true) => assert!(committed.insert(place)),
                Some(false) => assert!(committed.remove(&place)),
                None => {}
            }
        }
    }
}

impl<D: DeviceMemory> DeviceMemory for Strict<D> {
    fn mode(&self) -> AddressMode {
        self.inner.mode()
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        assert!(!size.is_zero(), "a region of nothing");
        self.alone(|| {
            let handle = self.inner.try_acquire(size)?;
            assert_eq!(handle.size, size);
            self.keep(&handle, None);
            Some(handle)
        })
    }

    fn release(&self, region: RegionHandle) {
        self.alone(|| {
            let held = self.regions.lock().unwrap().remove(&region.id);
            let held = held.expect("only what is out comes back");
            assert_eq!(held.size, region.size, "it comes back as it was handed out");
            assert!(!held.busy, "released while memory is committed to it");
            self.inner.release(region);
        });
    }

    fn info(&self) -> MemoryInfo {
        self.inner.info()
    }

    fn table(&self) -> Option<TableInfo> {
        self.inner.table()
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.inner.physical_address(region)
    }

    fn granule(&self) -> Option<Bytes> {
        self.inner.granule()
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        assert!(!size.is_zero(), "a region of nothing");
        self.alone(|| {
            let handle = self.inner.try_reserve(size)?;
            self.keep(&handle, Some(BTreeSet::new()));
            Some(handle)
        })
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.begin(region, offset, size, false);
        let done = self.inner.commit(region, offset, size);
        self.end(region, offset, size, done.then_some(true));
        done
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.begin(region, offset, size, true);
        self.inner.decommit(region, offset, size);
        self.end(region, offset, size, Some(false));
    }
}
