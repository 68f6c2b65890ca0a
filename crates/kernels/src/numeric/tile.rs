//! What a tile is, without its numbers.

use std::fmt;

use cubeyard_runtime::dtype::DType;
use smallvec::SmallVec;

use super::NumericError;

/// How many dimensions a tile can have.
pub const MOST_DIMENSIONS: usize = 4;

/// How many elements a tile can have: more than the memory of any PE holds, and few enough that an index is
/// an `i32` and a tile can be had.
pub const MOST_ELEMENTS: u64 = 1 << 28;

/// How long something is in each dimension: most have one or two, which take no memory of their own.
pub type Lengths = SmallVec<[u64; 2]>;

/// The kind of a tile: element type and shape; at most 4 dimensions, a scalar has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileType {
    /// What its elements are.
    pub dtype: DType,
    /// How long it is in each dimension, the last one being that of neighbours.
    pub shape: Lengths,
}

impl TileType {
    /// The kind of tiles of this type and shape, unless there are too many dimensions or elements.
    pub fn new(dtype: DType, shape: &[u64]) -> Result<Self, NumericError> {
        Self { dtype, shape: shape.into() }.checked()
    }

    /// The kind of a tile that is one element without dimensions.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, shape: Lengths::new() }
    }

    /// How many elements there are; where they cannot be counted in 64 bits, `u64::MAX`.
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        self.shape.iter().fold(1, |product: u64, &length| product.saturating_mul(length))
    }

    /// How many bytes the elements have together; where that is beyond 64 bits, `u64::MAX`.
    pub fn nbytes(&self) -> u64 {
        self.elements().saturating_mul(self.dtype.size())
    }

    /// The same with other elements.
    #[must_use]
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, shape: self.shape.clone() }
    }

    /// Itself, unless it is too much for a tile.
    pub(super) fn checked(self) -> Result<Self, NumericError> {
        if self.shape.len() > MOST_DIMENSIONS {
            return Err(NumericError::Dimensions { tile: self });
        }
        if self.elements() > MOST_ELEMENTS {
            return Err(NumericError::TooLarge { tile: self });
        }
        Ok(self)
    }

    /// How many elements it has, as a length: for types that were checked.
    pub(super) fn count(&self) -> usize {
        length(self.elements())
    }
}

/// A length of a checked type as Rust has lengths.
pub(super) fn length(elements: u64) -> usize {
    usize::try_from(elements).expect("a tile that was checked has few enough elements")
}

/// `f16[32, 64]`; a scalar is `f16[]`.
impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}
