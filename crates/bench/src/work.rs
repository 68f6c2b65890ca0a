//! Work of a bench, from which bounds are computed.

use cubeyard_runtime::dtype::DType;

use crate::report::Bound;

/// The work that any implementation must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations of matrix products, with the element type that determines the engine's rate;
    /// `None` without products.
    pub gemm: Option<(DType, u64)>,
    /// Greatest number of rows of a left factor that share a right one, depth, and number of columns of a right
    /// factor that share a left one, in any product; by default beyond the tiles of the matrix engine. It is as long
    /// at a partial tile as at a full one.
    pub largest: Option<[u64; 3]>,
    /// Bytes of products that must be stored to the TCMs: those that go on to memory, or into another product.
    pub results: u64,
    /// Elements that the vector engine must process, in units of its simple rate.
    pub elements: u64,
    /// Bytes that the vector engine must fetch from the TCMs, and store to them. The fetches of matrix products
    /// follow from their operations. Operations that can be chained without the TCM count nothing, and results of
    /// products are counted there.
    pub tcm: [u64; 2],
    /// Bytes that must leave or enter memory: each input once, each output once, over all PEs.
    pub bytes: u64,
    /// Number of PE memories over which these bytes are spread evenly; by default all PEs of the launch.
    pub memories: Option<u64>,
    /// Minimum times that the links allow for the required messages.
    pub links: Vec<Bound>,
}
