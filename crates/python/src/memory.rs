//! Flex allocator: classes of `cubeyard.memory`.
//!
//! No thread waits for the allocator while holding the GIL: every call of the allocator is made without it ([`calls`]).
//! The Python functions that the allocator calls (devices, streams, callbacks, clocks) acquire the GIL themselves. The
//! allocator holds no strong references to Python objects; the class [`owner::FlexAllocator`] does, where the garbage
//! collector can see them ([`hooks`]).

mod address;
mod allocator;
pub(crate) mod arguments;
mod block;
pub(crate) mod calls;
mod compaction;
mod device;
mod failure;
pub(crate) mod figures;
mod history;
pub(crate) mod hooks;
pub(crate) mod labels;
mod launch;
mod native_device;
pub(crate) mod owner;
pub(crate) mod pool;
pub(crate) mod pressure;
mod streams;
pub(crate) mod tag;
mod token;
pub(crate) mod watch;

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
    module.add_class::<failure::MemoryReport>()?;
    module.add_class::<history::HistoryEntry>()?;
    module.add_class::<launch::Program>()?;
    module.add_class::<launch::Launch>()?;
    module.add_class::<launch::Operand>()?;
    module.add_class::<pool::Pool>()?;
    module.add_class::<tag::Tag>()?;
    module.add_class::<token::AllocationToken>()?;
    module.add_class::<token::TokenBlock>()?;
    module.add_class::<watch::Event>()?;
    module.add_class::<watch::Subscription>()?;
    module.add_class::<native_device::MemoryDevice>()
}
