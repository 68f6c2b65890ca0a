//! The class `Address`.

use std::hash::{DefaultHasher, Hash, Hasher};

use cubeyard_memory::device::RegionId;
use cubeyard_memory::{Bytes, VirtualAddress};
use pyo3::prelude::*;

use super::arguments;

/// An address in device memory: a region and an offset in it. It owns nothing.
///
/// >>> from cubeyard.memory import Address
/// >>> Address(0x400000000, 1024)
/// Address(region_id=0x400000000, offset=0x400)
#[pyclass(frozen, eq, ord, module = "cubeyard.memory")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Id of the region: its physical address in a physical function, an index into the firmware's table in a virtual
    /// one.
    #[pyo3(get)]
    region_id: u64,
    /// Offset in the region, in bytes.
    #[pyo3(get)]
    offset: u64,
}

impl From<VirtualAddress> for Address {
    fn from(address: VirtualAddress) -> Self {
        Self { region_id: address.region_id.get(), offset: address.offset.get() }
    }
}

impl From<&Address> for VirtualAddress {
    fn from(address: &Address) -> Self {
        let (region_id, offset) = (RegionId::new(address.region_id), Bytes::new(address.offset));
        Self { region_id, offset }
    }
}

impl Address {
    /// Converts an argument.
    pub(crate) fn read(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let found = value.cast::<Self>().map(|address| *address.get());
        found.map_err(|_| arguments::unexpected("address", value, "an Address"))
    }
}

#[pymethods]
impl Address {
    #[new]
    fn new(
        #[pyo3(from_py_with = arguments::region_id)] region_id: u64,
        #[pyo3(from_py_with = arguments::offset)] offset: u64,
    ) -> Self {
        Self { region_id, offset }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.region_id, self.offset).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self) -> String {
        format!("Address(region_id={:#x}, offset={:#x})", self.region_id, self.offset)
    }

    fn __str__(&self) -> String {
        VirtualAddress::from(self).to_string()
    }
}
