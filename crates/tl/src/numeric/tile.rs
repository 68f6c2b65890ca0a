//! Types of tiles: element type and shape.

use std::fmt;

use cubeyard_runtime::dtype::DType;
use smallvec::SmallVec;

/// Maximum number of dimensions of a tile: enough for a tile of 2²⁰ elements with two along each, as sorting networks
/// use.
pub const MOST_DIMENSIONS: usize = 24;

/// Maximum number of elements of a tile: more than the memory of any PE can hold, and few enough that an index is an
/// `i32` and a tile fits in host memory.
pub const MOST_ELEMENTS: u64 = 1 << 28;

/// Length of each dimension; one or two are stored inline.
pub type Lengths = SmallVec<[u64; 2]>;

/// Element type and shape of a tile; at most [`MOST_DIMENSIONS`], a scalar has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileType {
    /// Type of the elements.
    pub dtype: DType,
    /// Length of each dimension; elements are contiguous along the last.
    pub shape: Lengths,
}

impl TileType {
    /// Returns the type of a single element without dimensions.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, shape: Lengths::new() }
    }

    /// Returns the number of elements, or `u64::MAX` if it exceeds 64 bits.
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        self.shape.iter().fold(1, |product: u64, &length| product.saturating_mul(length))
    }

    /// Returns the size of all elements in bytes, or `u64::MAX` if it exceeds 64 bits.
    pub fn nbytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size())
    }

    /// Returns the same shape with another element type.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, shape: self.shape.clone() }
    }

    /// Returns the number of elements as a `usize`, for checked types.
    pub(super) fn count(&self) -> usize {
        length(self.elements())
    }
}

/// Converts a length of a checked type to `usize`.
pub(super) fn length(elements: u64) -> usize {
    usize::try_from(elements).expect("a tile that was checked has few enough elements")
}

/// Formats e.g. `f16[32, 64]`; a scalar is `f16[]`.
impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}
