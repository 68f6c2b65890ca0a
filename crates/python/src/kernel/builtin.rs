//! Kernels of the Rust library, launched like kernels in Python.

use std::sync::Arc;

use cubeyard_collectives::collective::{Algorithm, Job, Operation, ReduceOp, Ring, World};
use cubeyard_kernels as kernels;
use cubeyard_kernels::{OperandLayout, Staging};
use cubeyard_tl::kernel::Kernel;
use pyo3::prelude::*;

use super::new_key;
use crate::context::Context;
use crate::error::Kind;
use crate::launch::{self, Given, Target, Times};

/// Built-in kernel, with the names of its arguments.
struct Builtin {
    name: &'static str,
    parameters: &'static [&'static str],
    make: fn() -> Kernel,
}

/// Kernels without construction parameters.
const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "vector_add",
        parameters: &["x", "y", "z", "block"],
        make: kernels::vector_add,
    },
    Builtin { name: "softmax", parameters: &["x", "y", "tile"], make: kernels::softmax },
    Builtin {
        name: "layer_norm",
        parameters: &["x", "gamma", "beta", "y", "tile"],
        make: kernels::layer_norm,
    },
    Builtin { name: "rms_norm", parameters: &["x", "gamma", "y", "tile"], make: kernels::rms_norm },
    Builtin {
        name: "gemm",
        parameters: &["a", "b", "c", "m", "k", "n"],
        make: || kernels::gemm(Staging::RefRef, OperandLayout::RowMajor),
    },
    Builtin {
        name: "gemm_blocked",
        parameters: &["a", "b", "c", "m", "k", "n"],
        make: kernels::gemm_blocked,
    },
    Builtin {
        name: "flash_attention",
        parameters: &["q", "k", "v", "out", "size", "q_block", "k_block", "causal"],
        make: kernels::flash_attention,
    },
];

/// Creates a kernel by its name. `numbers` are construction parameters: ranks and elements per message for
/// `ring_all_reduce`, none for the others.
fn make(name: &str, numbers: &[u64]) -> PyResult<(Vec<&'static str>, Kernel)> {
    if let ("ring_all_reduce", &[ranks, piece @ 1..=u64::MAX]) = (name, numbers) {
        let ranks = usize::try_from(ranks.max(1))?;
        let (operation, world) = (Operation::AllReduce(ReduceOp::Sum), World::ring(ranks));
        let parameters = vec!["input", "output", "first", "per_cube", "per_pe"];
        return Ok((parameters, Ring.kernel(&Job { operation, world, piece })));
    }
    match BUILTIN.iter().find(|builtin| builtin.name == name) {
        Some(builtin) if numbers.is_empty() => Ok((builtin.parameters.to_vec(), (builtin.make)())),
        _ => {
            let names: Vec<_> = BUILTIN.iter().map(|builtin| builtin.name).collect();
            let what = format!("{}, or ring_all_reduce with ranks and elements", names.join(", "));
            Err(Kind::Input
                .error(format!("kernel: expected one of {what}; found {name} {numbers:?}")))
        }
    }
}

/// A kernel of the library in Rust.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct RustKernel {
    key: Arc<u64>,
    #[pyo3(get)]
    name: String,
    numbers: Vec<u64>,
    /// Names of its arguments.
    #[pyo3(get)]
    parameters: Vec<&'static str>,
}

#[pymethods]
impl RustKernel {
    #[new]
    fn new(name: String, numbers: Vec<u64>) -> PyResult<Self> {
        let (parameters, _) = make(&name, &numbers)?;
        Ok(Self { key: new_key(), name, numbers, parameters })
    }
}

/// Launches a kernel of the library and waits for it.
#[pyfunction]
pub(super) fn launch_rust(
    py: Python<'_>,
    context: &Bound<'_, Context>,
    kernel: Py<RustKernel>,
    arguments: Vec<Bound<'_, PyAny>>,
    target: (u32, Vec<u32>, Vec<u32>),
) -> PyResult<Times> {
    let target = Target::new(target.0, target.1, target.2)?;
    let given = Given::all(&kernel.get().parameters, &arguments)?;
    context.get().shared.run(py, move |session| {
        let RustKernel { key, name, numbers, .. } = kernel.get();
        let kernel = session.kernels.rust(key, || Ok(make(name, numbers)?.1))?;
        launch::run(session, &kernel, &target, &given)
    })
}
