//! Diagrams of machines and of tensor placements, as self-contained SVG.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_diagrams::{View, machine, placement};
//! use cubeyard_runtime::dtype::DType;
//! use cubeyard_runtime::placement::{Placement, Split};
//!
//! let topology = Topology::embedded();
//! assert!(machine(&topology, View::Cube).starts_with("<svg"));
//!
//! let rows = Placement { pe: Split::RowWise, ..Placement::default() };
//! let layout = rows.resolve("64x8".parse()?, DType::I8, &topology)?;
//! assert!(placement(&layout).contains("every byte is held 16 times"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod machine;
mod placement;

pub use machine::{View, machine};
pub use placement::placement;
