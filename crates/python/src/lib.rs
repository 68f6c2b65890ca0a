//! Native module of the Python package `cubeyard`: converts arguments, calls the crates below, converts results.
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | the exceptions, and the conversion of errors into them |
//! | [`session`] | contexts shared by threads |
//! | [`forks`] | forks of the process |
//! | [`signals`] | Ctrl-C during long calls |
//! | [`topology`] | topologies of machines |
//! | [`context`], [`tensor`], [`bytes`], [`placement`] | contexts, their tensors, the bytes of these, and their places |
//! | [`launch`] | launches of kernels |
//! | [`kernel`] | kernels in Python |
//! | [`distributed`] | process groups and their ranks |
//! | [`bench`], [`record`] | runs of benches, benches written in Python, records of runs |
//! | [`command`] | the `cubeyard` command |
//! | [`table`] | tables of results, as Arrow streams and as pages |
//! | [`plain`] | dictionaries, lists, numbers and text, in and out |
//! | [`probe`], [`study`], [`serving`] | measurements of the fabric, of models, of collectives and of services |
//! | [`licences`] | the licences of linked libraries |
//! | [`memory`] | the Flex allocator |
//! | [`operators`] | simulated times of tensor operators |
//! | [`replay`] | replay of recorded allocations |
//! | [`torch`] | devices of PyTorch, on Linux |

#![allow(
    clippy::needless_pass_by_value,
    reason = "arguments from Python are converted into owned values"
)]

mod bench;
mod bytes;
mod command;
mod context;
mod distributed;
mod error;
mod forks;
mod kernel;
mod launch;
mod levers;
mod licences;
mod memory;
mod operators;
mod placement;
mod plain;
mod probe;
mod raised;
mod record;
mod replay;
mod scalar;
mod serving;
mod session;
mod signals;
mod study;
mod sweep;
mod table;
mod tensor;
mod topology;
#[cfg(target_os = "linux")]
mod torch;
mod trace;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    bench::register(module)?;
    command::register(module)?;
    levers::register(module)?;
    record::register(module)?;
    sweep::register(module)?;
    table::register(module)?;
    licences::register(module)?;
    bytes::register(module)?;
    context::register(module)?;
    placement::register(module)?;
    distributed::register(module)?;
    signals::register(module)?;
    forks::register(module)?;
    tensor::register(module)?;
    topology::register(module)?;
    kernel::register(module)?;
    probe::register(module)?;
    serving::register(module)?;
    study::register(module)?;
    memory::register(module)?;
    operators::register(module)?;
    replay::register(module)?;
    #[cfg(target_os = "linux")]
    torch::register(module)?;
    trace::register(module)?;
    // The stubs already list all names; a second list would have to be kept in sync.
    module.delattr("__all__")?;
    Ok(())
}
