//! Values of tiles, and their use as operands.

use crate::numeric::TileType;

/// Id of a value: the contents of a tile.
pub type ValueId = u32;

/// A tile as an operand: a value, viewed in a shape.
#[derive(Clone, Debug)]
pub struct Input {
    /// The value of the tile.
    pub value: ValueId,
    /// Type and shape in which its elements are viewed.
    pub ty: TileType,
}
