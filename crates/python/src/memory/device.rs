//! Device written in Python.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, DeviceMemory, MemoryInfo, RegionHandle, RegionId, TableInfo,
};
use pyo3::prelude::*;

use super::arguments;
use super::calls::{self, Raised};
use super::hooks::{self, Hooks};
use crate::error::Kind;

/// Device written in Python. A function that raises an exception refuses the request. Further requests for memory are
/// also refused, until the call of the allocator has returned and raised the exception.
pub(crate) struct PythonDevice {
    hooks: Weak<Hooks>,
    mode: AddressMode,
    granule: Option<Bytes>,
    /// Ids of the regions that the device has provided.
    given: Mutex<BTreeSet<u64>>,
}

impl PythonDevice {
    pub(crate) fn new(device: &Bound<'_, PyAny>, hooks: Weak<Hooks>) -> PyResult<Self> {
        let mode = arguments::mode(device.call_method0("mode")?.extract()?)?;
        let granule: Option<u64> = device.call_method0("granule")?.extract()?;
        if let Some(granule) = granule.filter(|granule| !granule.is_power_of_two()) {
            let text = format!(
                "granule() of the device returned {granule}: expected a power of two, or None"
            );
            return Err(Kind::Input.error(text));
        }
        Ok(Self { hooks, mode, granule: granule.map(Bytes::new), given: Mutex::default() })
    }

    fn given(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function of the device; returns `None` if it raises an exception, or if the device no longer exists.
    fn ask<T>(
        &self,
        function: &'static str,
        act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let answer = Python::try_attach(|py| {
            let device = hooks::find(py, &self.hooks, |objects| &objects.device)?;
            match act(device.bind(py)) {
                Ok(answer) => Some(answer),
                Err(_) if is_garbage(device.bind(py)) => None,
                Err(error) => {
                    calls::raise(Raised::Device(function, error));
                    None
                }
            }
        });
        answer.flatten()
    }

    fn give(&self, function: &'static str, size: Bytes) -> Option<RegionHandle> {
        if calls::has_raised() {
            return None;
        }
        let id = self.ask(function, |device| self.region(device, function, size))??;
        Some(RegionHandle { id: RegionId::new(id), size })
    }

    fn region(
        &self,
        device: &Bound<'_, PyAny>,
        function: &str,
        size: Bytes,
    ) -> PyResult<Option<u64>> {
        let answer = device.call_method1(function, (size.get(),))?;
        if answer.is_none() {
            return Ok(None);
        }
        let Ok(id) = answer.extract::<u64>() else {
            return Err(unexpected(
                function,
                &answer,
                "the id of a region, 0 to 2^64 - 1, or None",
            ));
        };
        if !self.given().insert(id) {
            let expected = "the id of a new region; a region with this id is in use";
            return Err(unexpected(function, &answer, expected));
        }
        Ok(Some(id))
    }
}

/// Returns whether the garbage collector is finalizing a device, together with the allocator that it refers to.
fn is_garbage(device: &Bound<'_, PyAny>) -> bool {
    let finalized = |gc: Bound<'_, PyModule>| gc.call_method1("is_finalized", (device,))?.extract();
    device.py().import("gc").and_then(finalized).unwrap_or(false)
}

/// Returns the exception for a device function that returned an invalid value.
fn unexpected(function: &str, answer: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let shown = answer.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
    Kind::Input.error(format!("{function}() returned {shown}: expected {expected}"))
}

fn info(device: &Bound<'_, PyAny>) -> PyResult<MemoryInfo> {
    let answer = device.call_method0("info")?;
    let Ok((free, total)) = answer.extract::<(u64, u64)>() else {
        return Err(unexpected("info", &answer, "a pair of numbers of bytes: free and total"));
    };
    Ok(MemoryInfo { free: Bytes::new(free), total: Bytes::new(total) })
}

fn table(device: &Bound<'_, PyAny>) -> PyResult<Option<TableInfo>> {
    let answer = device.call_method0("table")?;
    let Ok(pair) = answer.extract::<Option<(usize, usize)>>() else {
        let expected = "a pair, the numbers of entries and of free entries, or None";
        return Err(unexpected("table", &answer, expected));
    };
    Ok(pair.map(|(entries, free)| TableInfo { entries, free }))
}

fn physical_address(device: &Bound<'_, PyAny>, region: RegionId) -> PyResult<Option<u64>> {
    let answer = device.call_method1("physical_address", (region.get(),))?;
    let wrong = || unexpected("physical_address", &answer, "an address, 0 to 2^64 - 1, or None");
    answer.extract().map_err(|_| wrong())
}

fn commit(device: &Bound<'_, PyAny>, place: (u64, u64, u64)) -> PyResult<bool> {
    let answer = device.call_method1("commit", place)?;
    answer.extract().map_err(|_| unexpected("commit", &answer, "True or False"))
}

fn place(region: &RegionHandle, offset: Bytes, size: Bytes) -> (u64, u64, u64) {
    (region.id.get(), offset.get(), size.get())
}

impl DeviceMemory for PythonDevice {
    fn mode(&self) -> AddressMode {
        self.mode
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.give("acquire", size)
    }

    fn release(&self, region: RegionHandle) {
        let (id, size) = (region.id.get(), region.size.get());
        self.given().remove(&id);
        self.ask("release", |device| device.call_method1("release", (id, size)).map(drop));
    }

    fn info(&self) -> MemoryInfo {
        let none = MemoryInfo { free: Bytes::ZERO, total: Bytes::ZERO };
        self.ask("info", info).unwrap_or(none)
    }

    fn table(&self) -> Option<TableInfo> {
        self.ask("table", table).flatten()
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.ask("physical_address", |device| physical_address(device, region)).flatten()
    }

    fn granule(&self) -> Option<Bytes> {
        self.granule
    }

    fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
        self.give("reserve", size)
    }

    fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
        let wanted = || self.ask("commit", |device| commit(device, place(region, offset, size)));
        !calls::has_raised() && wanted().unwrap_or(false)
    }

    fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
        let place = place(region, offset, size);
        self.ask("decommit", |device| device.call_method1("decommit", place).map(drop));
    }
}
