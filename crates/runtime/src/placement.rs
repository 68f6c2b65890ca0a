//! Placement of tensors over SIPs, cubes and PEs, as plain data.
//!
//! A [`Placement`] states for each level (SIP, cube, PE) whether a tensor is copied or split there. For a shape and a
//! machine it resolves to a [`Layout`]: a [`Shard`] for each PE that holds a part.
//!
//! A tensor is split as a matrix ([`Shape::matrix`]): first over the SIPs, then each SIP's part over its cubes, then
//! each cube's part over its PEs. If rows or columns cannot be divided evenly, the first parts have one more; if there
//! are fewer rows or columns than parts, the last PEs hold nothing.
//!
//! The tensor's addresses are contiguous: part after part, in the order of SIPs, cubes and PEs, and each part
//! row-major. Copies of a part have the same addresses. With only `row_wise` splits, the whole tensor is row-major.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_runtime::dtype::DType;
//! use cubeyard_runtime::placement::{Placement, Split};
//!
//! let machine = Topology::embedded();
//! let placement = Placement {
//!     cube: Split::RowWise,
//!     pe: Split::ColumnWise,
//!     pes: Some(2),
//!     ..Placement::default()
//! };
//! let layout = placement.resolve("4096x4096".parse()?, DType::F16, &machine)?;
//! assert_eq!(layout.shards().len(), 32);
//! let shard = &layout.shards()[3];
//! assert_eq!(shard.at.to_string(), "sip0.cube1.pe1");
//! assert_eq!((shard.rows.clone(), shard.columns.clone()), (256..512, 2048..4096));
//! assert_eq!((shard.offset_bytes, shard.nbytes), (3 << 20, 1 << 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod layout;
mod mapping;
mod names;
mod report;
mod resolve;
mod split;
#[cfg(test)]
mod tests;

pub use error::{Level, PlacementError};
pub use layout::{Layout, Shard};
pub use mapping::MappingGroup;
pub use names::holders;
pub use split::Split;

use cubeyard_memory::address::SipId;

#[cfg(doc)]
use crate::shape::Shape;

/// Distribution of a tensor over a machine, level by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Split of the tensor over the SIPs.
    pub sip: Split,
    /// Split of a SIP's part over its cubes.
    pub cube: Split,
    /// Split of a cube's part over its PEs.
    pub pe: Split,
    /// SIPs, each once, in the order of their parts.
    pub sips: Vec<SipId>,
    /// Number of cubes of each SIP, counted from the first; all by default.
    pub cubes: Option<u32>,
    /// Number of PEs of each cube, counted from the first; all by default.
    pub pes: Option<u32>,
}

/// Places a copy in every PE of the first SIP.
impl Default for Placement {
    fn default() -> Self {
        Self {
            sip: Split::Replicate,
            cube: Split::Replicate,
            pe: Split::Replicate,
            sips: vec![SipId::new(0).expect("there is always a first one")],
            cubes: None,
            pes: None,
        }
    }
}

impl Placement {
    /// Places one copy, in the first PE of the first cube of a SIP.
    ///
    /// ```
    /// # use cubeyard_device::topology::Topology;
    /// # use cubeyard_memory::address::SipId;
    /// # use cubeyard_runtime::{dtype::DType, placement::Placement, shape::Shape};
    /// let layout = Placement::one(SipId::new(1).unwrap())
    ///     .resolve(Shape::SCALAR, DType::F32, &Topology::embedded())
    ///     .unwrap();
    /// assert_eq!(layout.shards().len(), 1);
    /// assert_eq!(layout.shards()[0].at.to_string(), "sip1.cube0.pe0");
    /// ```
    pub fn one(sip: SipId) -> Self {
        Self { sips: vec![sip], cubes: Some(1), pes: Some(1), ..Self::default() }
    }
}
