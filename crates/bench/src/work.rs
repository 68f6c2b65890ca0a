//! Work of a bench, from which bounds are computed.

use cubeyard_runtime::dtype::DType;

use crate::report::Bound;

/// The work that any implementation must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations of matrix products, with the element type that determines the engine's rate;
    /// `None` without products.
    pub gemm: Option<(DType, u64)>,
    /// Elements that the vector engine must process, in units of its simple rate.
    pub elements: u64,
    /// Bytes that the vector engine must fetch from the TCMs, and store to them. The fetches of matrix products
    /// follow from their operations. Operations that can be chained without the TCM count nothing.
    pub tcm: [u64; 2],
    /// Bytes that must leave or enter memory: each input once, each output once, over all PEs.
    pub bytes: u64,
    /// Number of PE memories over which these bytes are spread evenly; by default all PEs of the launch.
    pub memories: Option<u64>,
    /// Minimum times that the links allow for the required messages.
    pub links: Vec<Bound>,
}
