//! Why an operation has no result.

use cubeyard_runtime::dtype::{DType, OutOfRange};
use thiserror::Error;

use super::{MOST_DIMENSIONS, MOST_ELEMENTS, TileType};

/// An operation has no result. Nothing was changed; what to do instead is said at each variant.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NumericError {
    /// A tile would have too many dimensions. Join some of them.
    #[error("{tile} has {} dimensions, a tile at most {MOST_DIMENSIONS}", tile.shape.len())]
    Dimensions {
        /// The tile that there cannot be.
        tile: TileType,
    },
    /// A tile would have too many elements. Work on parts of it.
    #[error("{tile} has too many elements, a tile has at most {MOST_ELEMENTS}")]
    TooLarge {
        /// The tile that there cannot be.
        tile: TileType,
    },
    /// There are more or fewer bytes than the elements have. Give as many.
    #[error("{tile} has {} bytes; found {found}", tile.nbytes())]
    Bytes {
        /// The tile.
        tile: TileType,
        /// How many bytes there were.
        found: u64,
    },
    /// There are more or fewer values than elements. Give as many.
    #[error("{tile} has {} elements; found {found} values", tile.elements())]
    Values {
        /// The tile.
        tile: TileType,
        /// How many values there were.
        found: u64,
    },
    /// A value is none of the integer type. Choose another value or type.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// There is no such operation on elements of this type. Cast first.
    #[error("{operation} of {tile}: there is none for {}", tile.dtype)]
    NoSuchOperation {
        /// The operation.
        operation: &'static str,
        /// Its operand.
        tile: TileType,
    },
    /// Operands have different types of elements. Cast one of them.
    #[error("{operation} of {a} and {b}: the types differ")]
    TypesDiffer {
        /// The operation.
        operation: &'static str,
        /// One operand.
        a: TileType,
        /// The other.
        b: TileType,
    },
    /// The shapes do not broadcast: counted from the last dimension, two lengths differ and neither is 1.
    #[error("{operation} of {a} and {b}: the shapes do not broadcast")]
    NoBroadcast {
        /// The operation.
        operation: &'static str,
        /// One operand.
        a: TileType,
        /// The other.
        b: TileType,
    },
    /// A condition or mask is something else than bool. Compare with 0, or cast.
    #[error("{operation} with {mask} as the condition: it must be bool")]
    NotACondition {
        /// The operation.
        operation: &'static str,
        /// What was given as the condition.
        mask: TileType,
    },
    /// There is no such dimension. Axes count from 0.
    #[error("{operation} of {tile} along axis {axis}: there is none")]
    Axis {
        /// The operation.
        operation: &'static str,
        /// Its operand.
        tile: TileType,
        /// The axis asked for.
        axis: usize,
    },
    /// Nothing has no greatest element. Take the sum, or a longer axis.
    #[error("{operation} of {tile} along axis {axis}: it has length 0")]
    EmptyAxis {
        /// The operation.
        operation: &'static str,
        /// Its operand.
        tile: TileType,
        /// The axis asked for.
        axis: usize,
    },
    /// The operation takes another number of dimensions. Reshape first.
    #[error("{operation} of {tile}: it takes {expected} dimensions")]
    Rank {
        /// The operation.
        operation: &'static str,
        /// Its operand.
        tile: TileType,
        /// How many dimensions it takes, in words.
        expected: &'static str,
    },
    /// The matrices do not multiply. Transpose one, or choose other tiles.
    #[error("dot of {a} and {b}: {} columns against {} rows", a.shape[1], b.shape[0])]
    DotShapes {
        /// The left matrix.
        a: TileType,
        /// The right one.
        b: TileType,
    },
    /// What is accumulated into is not of the product's kind. Begin with zeros of that kind.
    #[error("dot into {found}: the product is {expected}")]
    Accumulator {
        /// The product.
        expected: TileType,
        /// What was given.
        found: TileType,
    },
    /// The axes do not name each dimension once.
    #[error("permute of {tile} by {axes:?}: the axes must name each dimension once")]
    Permutation {
        /// The operand.
        tile: TileType,
        /// The axes given.
        axes: Vec<usize>,
    },
    /// A shape has more or fewer elements than the tile.
    #[error("reshape of {tile} to {shape:?}: the number of elements differs")]
    Reshape {
        /// The operand.
        tile: TileType,
        /// The shape given.
        shape: Vec<u64>,
    },
    /// A tile does not broadcast to a shape: a length other than 1 differs, or dimensions are lost.
    #[error("broadcast of {tile} to {shape:?}: the shape does not fit")]
    BroadcastTo {
        /// The operand.
        tile: TileType,
        /// The shape given.
        shape: Vec<u64>,
    },
    /// A box is not within the tile, or has another number of dimensions.
    #[error("{operation} of {tile}: {shape:?} from {start:?} on is not within it")]
    Box {
        /// The operation.
        operation: &'static str,
        /// The tile.
        tile: TileType,
        /// Where the box begins.
        start: Vec<u64>,
        /// How long it is.
        shape: Vec<u64>,
    },
    /// A range cannot count in this type. Count in integers and cast.
    #[error("a range of {dtype}: there is none")]
    Range {
        /// The type.
        dtype: DType,
    },
}
