//! A device that fails on demand, for tests.

use super::{
    AddressMode, DeviceMemory, ExportHandle, MemoryInfo, RegionHandle, RegionId, TableInfo,
};
use crate::Bytes;
use crate::sync::{Mutex, lock};

/// Calls to a [`Faulty`] device that fail. Only `acquire`, `reserve` and `commit` can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No call fails.
    Never,
    /// Only the `n`th fallible call from now on, counted from 0.
    Once(usize),
    /// The `n`th fallible call and all later ones.
    From(usize),
}

/// A wrapper of a device that makes calls fail.
///
/// ```
/// use cubeyard_memory::device::{Card, CardSpec, DeviceMemory, Fault, Faulty};
/// use cubeyard_memory::Bytes;
///
/// let card = Faulty::new(Card::new(CardSpec::physical(Bytes::gib(64))));
/// card.fail(Fault::Once(1));
/// assert!(card.try_acquire(Bytes::gib(4)).is_some());
/// assert!(card.try_acquire(Bytes::gib(4)).is_none(), "the second call was told to fail");
/// assert_eq!(card.calls(), 2);
/// ```
#[derive(Debug)]
pub struct Faulty<D> {
    inner: D,
    state: Mutex<FaultyState>,
}

#[derive(Clone, Copy, Debug)]
struct FaultyState {
    fault: Fault,
    since: usize,
    calls: usize,
}

impl<D> Faulty<D> {
    /// Wraps a device; no call fails yet.
    pub fn new(inner: D) -> Self {
        Self { inner, state: Mutex::new(FaultyState { fault: Fault::Never, since: 0, calls: 0 }) }
    }

    /// Sets the calls that fail from now on.
    pub fn fail(&self, fault: Fault) {
        let mut state = lock(&self.state);
        *state = FaultyState { fault, since: 0, calls: state.calls };
    }

    /// Returns the number of fallible calls so far, including those that failed.
    pub fn calls(&self) -> usize {
        lock(&self.state).calls
    }

    /// Returns the wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn works(&self) -> bool {
        let mut state = lock(&self.state);
        let number = state.since;
        state.since += 1;
        state.calls += 1;
        match state.fault {
            Fault::Never => true,
            Fault::Once(failing) => number != failing,
            Fault::From(first) => number < first,
        }
    }
}

impl<D: DeviceMemory> DeviceMemory for Faulty<D> {
    fn mode(&self) -> AddressMode {
        self.inner.mode()
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.works().then(|| self.inner.try_acquire(size)).flatten()
    }

    fn release(&self, region: RegionHandle) {
        self.inner.release(region);
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
        self.works().then(|| self.inner.try_reserve(size)).flatten()
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        self.works() && self.inner.commit(region, offset, size)
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        self.inner.decommit(region, offset, size);
    }

    fn export(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> Option<ExportHandle> {
        self.inner.export(region, offset, size)
    }
}
