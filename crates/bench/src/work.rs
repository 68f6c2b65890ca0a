//! Work of a bench, from which bounds are computed.

use cubeyard_runtime::dtype::DType;

use crate::report::Bound;

/// Work that any implementation must do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations of matrix products, with the element type that determines the engine's rate;
    /// `None` without products.
    pub gemm: Option<(DType, u64)>,
    /// Maximum over all products of: rows of a left factor that share a right factor, depth, and columns of a right
    /// factor that share a left factor. The default exceeds the tiles of the matrix unit, which takes as long for a
    /// partial tile as for a full one.
    pub largest: Option<[u64; 3]>,
    /// Bytes of products that must be stored to the TCMs: results that go to memory, or into another product.
    pub results: u64,
    /// Elements that the vector unit must process, in units of its simple rate.
    pub elements: u64,
    /// Bytes that the vector unit must fetch from the TCMs, and store to them. Fetches of matrix products follow from
    /// their operations. Operations that can be chained without the TCM do not count, and results of products are
    /// counted in `results`.
    pub tcm: [u64; 2],
    /// Bytes that must leave or enter memory: each input once and each output once, over all PEs.
    pub bytes: u64,
    /// Number of PE memories over which these bytes are spread evenly; by default all PEs of the launch.
    pub memories: Option<u64>,
    /// Minimum times that the links allow for the required messages.
    pub links: Vec<Bound>,
}
