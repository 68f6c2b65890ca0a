//! Simulated times of tensor operators on one SIP.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A program of a tensor library calls operators by their tensors' shapes, strides and types. An [`OperatorMachine`] returns
//! the [cost](OperatorCost) of one: it places storages as the library's allocator does, with pages dealt over the PEs of the
//! SIP, runs a kernel of the [kernel language](cubeyard_tl) on them without data, and compares its time with the peak rates.
//!
//! | module | contents |
//! |---|---|
//! | `tensor`, `nest` | tensors without data, and loops over several of one shape |
//! | `machine` | storages and runs of kernels |
//! | `flow` | load of links and memories, where too many accesses meet to simulate each |
//! | `steady` | extrapolation from a few steps |
//! | `pointwise`, `reduce`, `rows`, `product`, `attention`, `gather`, `convolution` | the families of operators |
//! | `spread`, `copies` | rows near to their pages, and copies of small tensors in each cube |
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_operators::{OperatorMachine, Tensor, Vector};
//!
//! let machine = OperatorMachine::new(&Topology::embedded())?;
//! let x = Tensor::new("x", &[4096, 4096], &[4096, 1], "float16", 2)?;
//! let cost = machine.pointwise(&[x.clone(), x.clone()], &[x], Vector { simple: 1, special: 0 })?;
//! // Three times 32 MiB at 256 GB/s for each of 128 PEs.
//! assert_eq!(cost.bound_ps, 3_072_000);
//! assert!(cost.ps < 3_300_000 && cost.local_share > 0.99);
//! # Ok::<(), cubeyard_operators::OperatorError>(())
//! ```

mod attention;
mod compute;
mod convolution;
mod copies;
mod cost;
mod error;
mod flow;
mod gather;
mod machine;
mod nest;
mod places;
mod pointwise;
mod product;
mod reduce;
mod rows;
mod spread;
mod steady;
mod tensor;

pub use attention::Attention;
pub use convolution::Convolution;
pub use cost::{OperatorCost, Vector};
pub use error::OperatorError;
pub use machine::OperatorMachine;
pub use rows::RowWork;
pub use tensor::Tensor;
