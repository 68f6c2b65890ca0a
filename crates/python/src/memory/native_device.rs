//! Devices written in Rust.

use std::sync::Arc;

use cubeyard_memory::Bytes;
#[cfg(unix)]
use cubeyard_memory::device::HostMemory;
use cubeyard_memory::device::{AddressMode, Card, CardSpec, DeviceMemory};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::address::Address;
use super::arguments;
use crate::error::Kind;

/// A device that is written in Rust. Its functions call no Python.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct MemoryDevice(Device);

enum Device {
    Card(Arc<Card>),
    #[cfg(unix)]
    Host(Arc<HostMemory>),
}

impl MemoryDevice {
    pub(crate) fn memory(&self) -> Arc<dyn DeviceMemory> {
        match &self.0 {
            Device::Card(card) => Arc::clone(card) as Arc<dyn DeviceMemory>,
            #[cfg(unix)]
            Device::Host(host) => Arc::clone(host) as Arc<dyn DeviceMemory>,
        }
    }

    #[cfg(unix)]
    fn host(&self) -> PyResult<&HostMemory> {
        match &self.0 {
            Device::Host(host) => Ok(host),
            Device::Card(_) => Err(Kind::NoData.error("a simulated card has no contents")),
        }
    }
}

fn outside(address: &Address, length: usize) -> PyErr {
    let address = cubeyard_memory::VirtualAddress::from(address);
    Kind::Input
        .error(format!("{length} bytes from {address} are outside the memory of this device"))
}

#[pymethods]
impl MemoryDevice {
    /// Creates a simulated card.
    #[staticmethod]
    fn card(
        #[pyo3(from_py_with = arguments::memory)] memory: u64,
        mode: String,
        #[pyo3(from_py_with = arguments::table_entries)] table: u16,
    ) -> PyResult<Self> {
        let memory = Bytes::new(memory);
        let spec = match arguments::mode(mode)? {
            AddressMode::Physical => CardSpec::physical(memory),
            AddressMode::Virtual => CardSpec::virtual_function(memory, usize::from(table)),
        };
        Ok(Self(Device::Card(Arc::new(Card::new(spec)))))
    }

    /// Creates a device over memory of this process.
    #[staticmethod]
    #[cfg(unix)]
    fn host_memory(#[pyo3(from_py_with = arguments::limit)] limit: u64) -> Self {
        Self(Device::Host(Arc::new(HostMemory::new(Bytes::new(limit)))))
    }

    fn info(&self) -> (u64, u64) {
        let info = self.memory().info();
        (info.free.get(), info.total.get())
    }

    fn table(&self) -> Option<(usize, usize)> {
        self.memory().table().map(|table| (table.entries, table.free))
    }

    /// Copies bytes into the memory.
    #[cfg(unix)]
    fn write(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = Address::read)] address: Address,
        data: &[u8],
    ) -> PyResult<()> {
        let (host, place) = (self.host()?, cubeyard_memory::VirtualAddress::from(&address));
        let written = py.detach(|| host.write(place.region_id, place.offset, data));
        written.ok_or_else(|| outside(&address, data.len()))
    }

    /// Copies bytes out of the memory.
    #[cfg(unix)]
    fn read<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = Address::read)] address: Address,
        #[pyo3(from_py_with = arguments::length)] length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (host, place) = (self.host()?, cubeyard_memory::VirtualAddress::from(&address));
        let read = py.detach(|| host.read(place.region_id, place.offset, length));
        Ok(PyBytes::new(py, &read.ok_or_else(|| outside(&address, length))?))
    }
}
