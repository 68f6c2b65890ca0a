//! Arithmetic on arrays, with the results that the engines of a PE would produce.
//!
//! Every operation exists twice: the function in [`infer`] returns the type of the result, or an error; the function
//! here also computes the result. The second calls the first, so a kernel that runs without data fails on the same
//! input with the same error as one that runs with data.
//!
//! - **Floats** of at most 32 bits are computed in `f32` and rounded to their own type after every operation, once and
//!   to nearest, ties to even; `f64` is computed in `f64`. Every NaN result is the canonical quiet NaN of the type, so
//!   that results do not depend on the host processor.
//! - **Integers** wrap around in their own width. [`Binary::Div`] and [`Binary::Rem`] round down, like Python's `//`
//!   and `%`; division by 0 gives 0 for both. A shift by a negative amount, or by the width or more, gives 0, or -1 for
//!   a negative number shifted right. All of this matches NumPy. A negative power of an integer, an error in NumPy, is
//!   1 divided by the positive power, truncated.
//! - **NaN** wins in [`Binary::Maximum`], [`Binary::Minimum`], [`Reduce::Max`] and [`Reduce::Min`], and the
//!   first NaN in [`Reduce::Argmax`] and [`Reduce::Argmin`], as in NumPy. Of two zeros the first one is kept.
//! - **Types** of the operands of one operation are the same; a kernel casts explicitly. Bools have logic, order and
//!   equality, but no arithmetic. Numbers are [`Constant`]s of their [common type](promoted) with the tile.
//! - **Shapes** of operands broadcast as in NumPy. A tile has at most 24 dimensions.
//!
//! ```
//! use cubeyard_tl::numeric::{Array, Binary, TileType, binary, dot};
//! use cubeyard_runtime::dtype::DType;
//!
//! let a = Array::from_values(&TileType::new(DType::F16, &[2, 2])?, &[1.0, 2.0, 3.0, 4.0])?;
//! let row = Array::from_values(&TileType::new(DType::F16, &[2])?, &[10.0, 0.5])?;
//! assert_eq!(binary(Binary::Mul, &a, &row)?.values(), [10.0, 1.0, 30.0, 2.0]);
//! let product = dot(&a, &a, None)?;
//! assert_eq!(product.ty().to_string(), "f32[2, 2]");
//! assert_eq!(product.values(), [7.0, 10.0, 15.0, 22.0]);
//!
//! let error = dot(&a, &row, None).unwrap_err();
//! assert_eq!(error.to_string(), "dot of f16[2]: it takes 2 or 3 dimensions");
//! # Ok::<(), cubeyard_tl::numeric::NumericError>(())
//! ```

mod array;
mod cast;
mod constant;
mod dot;
mod elementwise;
mod error;
pub mod infer;
mod integer;
mod narrow;
mod operation;
mod product;
mod real;
mod reduce;
mod shape;
mod tile;
mod value;

#[cfg(test)]
mod tests;

pub use array::{Array, bitcast, cast};
pub use constant::{Constant, promoted};
pub use dot::{dot, product};
pub use elementwise::{binary, merge, ternary, unary};
pub use error::NumericError;
pub use narrow::rounding;
pub use operation::{Binary, Reduce, Scan, Ternary, Unary};
pub use product::Product;
pub use reduce::{reduce, scan, softmax};
pub use shape::{broadcast_to, paste, permute, reshape, slice, transpose};
pub use tile::{Lengths, MOST_DIMENSIONS, MOST_ELEMENTS, TileType};
