//! Errors of operations on arrays.

use cubeyard_runtime::dtype::{DType, OutOfRange};
use thiserror::Error;

use super::{MOST_DIMENSIONS, MOST_ELEMENTS, TileType};

/// An operation that has no result. The operands are unchanged; each variant states what to do instead.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum NumericError {
    /// A tile would have too many dimensions. Merge some of them.
    #[error("{tile} has {} dimensions; a tile has at most {MOST_DIMENSIONS}", tile.shape.len())]
    Dimensions {
        /// The type of the rejected tile.
        tile: TileType,
    },
    /// A tile would have too many elements. Split it into parts.
    #[error("{tile} has too many elements; a tile has at most {MOST_ELEMENTS}")]
    TooLarge {
        /// The type of the rejected tile.
        tile: TileType,
    },
    /// The number of bytes does not match the elements. Pass exactly that number.
    #[error("{tile} needs {} bytes; found {found}", tile.nbytes())]
    Bytes {
        /// Type of the tile.
        tile: TileType,
        /// Number of bytes given.
        found: u64,
    },
    /// The number of values does not match the elements. Pass exactly that number.
    #[error("{tile} needs {} values; found {found}", tile.elements())]
    Values {
        /// Type of the tile.
        tile: TileType,
        /// Number of values given.
        found: u64,
    },
    /// An integer type or bool cannot represent a number. Choose another number or type.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// The operation is not defined for this element type. Cast first.
    #[error("{operation} of {tile}: not defined for {}", tile.dtype)]
    NoSuchOperation {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the operand.
        tile: TileType,
    },
    /// The two types differ in size. Choose a type of the same size, or cast.
    #[error("bitcast of {tile} to {dtype}: expected a type of {} bytes other than bool", tile.dtype.size())]
    Bitcast {
        /// Type of the operand.
        tile: TileType,
        /// The requested type.
        dtype: DType,
    },
    /// Operands have different element types. Cast one of them.
    #[error("{operation} of {a} and {b}: the types differ")]
    TypesDiffer {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the first operand.
        a: TileType,
        /// Type of the second operand.
        b: TileType,
    },
    /// The shapes do not broadcast: counted from the last dimension, two lengths differ and neither is 1.
    #[error("{operation} of {a} and {b}: the shapes do not broadcast")]
    NoBroadcast {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the first operand.
        a: TileType,
        /// Type of the second operand.
        b: TileType,
    },
    /// A condition or mask is not bool. Compare with 0, or cast.
    #[error("{operation} with {mask} as the condition: it must be bool")]
    NotACondition {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the condition given.
        mask: TileType,
    },
    /// The axis does not exist. Axes count from 0.
    #[error("{operation} of {tile} along axis {axis}: there is no such axis")]
    Axis {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the operand.
        tile: TileType,
        /// The requested axis.
        axis: usize,
    },
    /// A maximum or minimum along an axis of length 0. Use a sum, or a longer axis.
    #[error("{operation} of {tile} along axis {axis}: it has length 0")]
    EmptyAxis {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the operand.
        tile: TileType,
        /// The requested axis.
        axis: usize,
    },
    /// The operation needs another number of dimensions. Reshape first.
    #[error("{operation} of {tile}: it takes {expected} dimensions")]
    Rank {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the operand.
        tile: TileType,
        /// Required number of dimensions, as text.
        expected: &'static str,
    },
    /// The inner dimensions of a product differ. Transpose an operand, or choose other tiles.
    #[error("dot of {a} and {b}: {} columns against {} rows", from_end(a, 1), from_end(b, 2))]
    DotShapes {
        /// Type of the left matrix.
        a: TileType,
        /// Type of the right matrix.
        b: TileType,
    },
    /// One operand of a product is a matrix and the other a batch, or the batches differ in size. Reshape an operand.
    #[error(
        "dot of {a} and {b}: expected two matrices, or two batches with the same number of matrices"
    )]
    DotBatches {
        /// Type of the left operand.
        a: TileType,
        /// Type of the right operand.
        b: TileType,
    },
    /// The product cannot have this type. Cast the result.
    #[error("dot into {out}: its sum is {sum}; only a sum in f32 may become f16 or bf16")]
    DotResult {
        /// Type in which products accumulate.
        sum: DType,
        /// The requested type.
        out: DType,
    },
    /// The scales do not match blocks of their operand. Choose another shape or type.
    #[error(
        "dot_scaled of {operand} with scales {scale}: expected f32, f16 or bf16, and lengths that divide the operand's"
    )]
    Scale {
        /// Type of the operand.
        operand: TileType,
        /// Type of the scales.
        scale: TileType,
    },
    /// The accumulator does not have the type of the product. Start with zeros of that type.
    #[error("dot into {found}: the product is {expected}")]
    Accumulator {
        /// Type of the product.
        expected: TileType,
        /// Type of the accumulator given.
        found: TileType,
    },
    /// The axes do not name each dimension once.
    #[error("permute of {tile} by {axes:?}: the axes must name each dimension once")]
    Permutation {
        /// Type of the operand.
        tile: TileType,
        /// The axes given.
        axes: Vec<usize>,
    },
    /// The number of elements of the shape differs from the tile's.
    #[error("reshape of {tile} to {shape:?}: the number of elements differs")]
    Reshape {
        /// Type of the operand.
        tile: TileType,
        /// The requested shape.
        shape: Vec<u64>,
    },
    /// A tile does not broadcast to a shape: a length other than 1 differs, or dimensions would be dropped.
    #[error("broadcast of {tile} to {shape:?}: the shape does not fit")]
    BroadcastTo {
        /// Type of the operand.
        tile: TileType,
        /// The requested shape.
        shape: Vec<u64>,
    },
    /// A box is not within the tile, or has another number of dimensions.
    #[error("{operation} of {tile}: the box {shape:?} at {start:?} is not within the tile")]
    Box {
        /// Name of the operation.
        operation: &'static str,
        /// Type of the tile.
        tile: TileType,
        /// First index of the box.
        start: Vec<u64>,
        /// Shape of the box.
        shape: Vec<u64>,
    },
    /// The element type of a range cannot count. Count in integers and cast.
    #[error("a range of {dtype} is not defined")]
    Range {
        /// The requested element type.
        dtype: DType,
    },
}

/// Returns the length of a dimension, counted from the end, starting at 1.
fn from_end(tile: &TileType, place: usize) -> u64 {
    tile.shape.len().checked_sub(place).map_or(1, |axis| tile.shape[axis])
}
