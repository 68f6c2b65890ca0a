//! The Flex allocator: classes of `cubeyard.memory`.
//!
//! No thread waits for the allocator with the GIL: every call of it is made without ([`calls`]), and the functions in
//! Python that it calls (devices, streams, callbacks, clocks) take the GIL for themselves. Nothing that the allocator
//! keeps refers to a Python object strongly; the class [`owner::FlexAllocator`] does, where the garbage collector
//! can see it ([`hooks`]).

mod address;
mod allocator;
mod arguments;
mod block;
pub(crate) mod calls;
mod compaction;
mod device;
mod failure;
pub(crate) mod figures;
mod hooks;
mod native_device;
mod owner;
mod pressure;
mod streams;

use pyo3::prelude::*;

pub(crate) use address::Address;
pub(crate) use calls::Held;
pub(crate) use failure::out_of_memory;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<owner::FlexAllocator>()?;
    module.add_class::<address::Address>()?;
    module.add_class::<block::Allocation>()?;
    module.add_class::<block::Pin>()?;
    module.add_class::<compaction::Compaction>()?;
    module.add_class::<native_device::MemoryDevice>()
}
