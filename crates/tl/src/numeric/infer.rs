//! Result types of operations, or the errors.
//!
//! One function for each function of [`numeric`](super), of the same name, on types instead of arrays.

mod product;
mod shape;

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::constant::moved;
use super::{
    Binary, Constant, MOST_DIMENSIONS, MOST_ELEMENTS, NumericError, Reduce, Scan, Ternary,
    TileType, Unary,
};
use shape::{axis_of, broadcast};

pub(super) use product::sum_dtype;
pub use product::{dot, product};
pub use shape::{broadcast_to, merge, paste, permute, reshape, slice, transpose};

impl TileType {
    /// Creates the type; fails if it has too many dimensions or elements.
    pub fn new(dtype: DType, shape: &[u64]) -> Result<Self, NumericError> {
        Self { dtype, shape: shape.into() }.checked()
    }

    /// Checks the limits on dimensions and elements.
    pub(super) fn checked(self) -> Result<Self, NumericError> {
        if self.shape.len() > MOST_DIMENSIONS {
            return Err(NumericError::Dimensions { tile: self });
        }
        if self.elements() > MOST_ELEMENTS {
            return Err(NumericError::TooLarge { tile: self });
        }
        Ok(self)
    }
}

/// The element types on which an operation is defined.
#[derive(Clone, Copy)]
enum Domain {
    Floats,
    Numbers,
    Integers,
    Bits,
    All,
}

impl Domain {
    fn has(self, dtype: DType) -> bool {
        let (float, truth) = (dtype.is_float(), dtype == DType::Bool);
        match self {
            Self::Floats => float,
            Self::Numbers => !truth,
            Self::Integers => !float && !truth,
            Self::Bits => !float,
            Self::All => true,
        }
    }

    /// Checks the operand, and that the domain includes its element type.
    fn admit(self, operation: &'static str, tile: &TileType) -> Result<(), NumericError> {
        let tile = tile.clone().checked()?;
        if self.has(tile.dtype) {
            return Ok(());
        }
        Err(NumericError::NoSuchOperation { operation, tile })
    }
}

/// Checks that both have the same element type.
fn same_dtype(operation: &'static str, a: &TileType, b: &TileType) -> Result<(), NumericError> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(NumericError::TypesDiffer { operation, a: a.clone(), b: b.clone() })
}

/// Returns the result type of [`unary`](super::unary).
pub fn unary(operation: Unary, a: &TileType) -> Result<TileType, NumericError> {
    let domain = match operation {
        Unary::Neg | Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Relu => Domain::Numbers,
        Unary::Not => Domain::Bits,
        _ => Domain::Floats,
    };
    domain.admit(operation.name(), a)?;
    Ok(a.clone())
}

/// Returns the result type of [`binary`](super::binary).
pub fn binary(operation: Binary, a: &TileType, b: &TileType) -> Result<TileType, NumericError> {
    let domain = match operation {
        Binary::Maximum | Binary::Minimum => Domain::All,
        Binary::And | Binary::Or | Binary::Xor => Domain::Bits,
        Binary::Shl | Binary::Shr => Domain::Integers,
        _ if operation.compares() => Domain::All,
        _ => Domain::Numbers,
    };
    domain.admit(operation.name(), a)?;
    same_dtype(operation.name(), a, b)?;
    let tile = broadcast(operation.name(), a, b)?;
    Ok(if operation.compares() { tile.with_dtype(DType::Bool) } else { tile })
}

/// Returns the result type of [`ternary`](super::ternary).
pub fn ternary(
    operation: Ternary,
    a: &TileType,
    b: &TileType,
    c: &TileType,
) -> Result<TileType, NumericError> {
    let name = operation.name();
    if operation == Ternary::Where {
        condition(name, a)?;
    } else {
        Domain::Numbers.admit(name, a)?;
        same_dtype(name, a, b)?;
    }
    same_dtype(name, b, c)?;
    broadcast(name, &broadcast(name, a, b)?.with_dtype(b.dtype), c)
}

/// Checks that a condition is bool.
fn condition(operation: &'static str, mask: &TileType) -> Result<(), NumericError> {
    if mask.dtype == DType::Bool {
        return Ok(());
    }
    Err(NumericError::NotACondition { operation, mask: mask.clone() })
}

/// Returns the result type of [`reduce`](super::reduce).
pub fn reduce(
    operation: Reduce,
    a: &TileType,
    axis: usize,
    keep: bool,
) -> Result<TileType, NumericError> {
    let (name, mut tile) = (operation.name(), a.clone());
    let domain = match operation {
        Reduce::Sum | Reduce::Prod => Domain::Numbers,
        Reduce::Xor => Domain::Bits,
        Reduce::Max | Reduce::Min | Reduce::Argmax | Reduce::Argmin => Domain::All,
    };
    domain.admit(name, a)?;
    if axis_of(name, a, axis)? == 0 && matches!(domain, Domain::All) {
        return Err(NumericError::EmptyAxis { operation: name, tile, axis });
    }
    tile.shape[axis] = 1;
    if !keep {
        tile.shape.remove(axis);
    }
    let index = matches!(operation, Reduce::Argmax | Reduce::Argmin);
    // Removing an axis of length 0 can increase the number of elements.
    if index { tile.with_dtype(DType::I32) } else { tile }.checked()
}

/// Returns the result type of [`scan`](super::scan).
pub fn scan(operation: Scan, a: &TileType, axis: usize) -> Result<TileType, NumericError> {
    Domain::Numbers.admit(operation.name(), a)?;
    axis_of(operation.name(), a, axis)?;
    Ok(a.clone())
}

/// Returns the result type of [`softmax`](super::softmax).
pub fn softmax(a: &TileType, axis: usize) -> Result<TileType, NumericError> {
    Domain::Floats.admit("softmax", a)?;
    axis_of("softmax", a, axis)?;
    Ok(a.clone())
}

/// Returns the result type of [`cast`](super::cast), which is defined between all types.
pub fn cast(a: &TileType, dtype: DType) -> Result<TileType, NumericError> {
    a.with_dtype(dtype).checked()
}

/// Returns the result type of [`bitcast`](super::bitcast), which is defined between types of the same size other than
/// bool.
pub fn bitcast(a: &TileType, dtype: DType) -> Result<TileType, NumericError> {
    let is_bool = a.dtype == DType::Bool || dtype == DType::Bool;
    if a.dtype != dtype && (is_bool || a.dtype.size() != dtype.size()) {
        return Err(NumericError::Bitcast { tile: a.clone(), dtype });
    }
    a.with_dtype(dtype).checked()
}

/// Returns the type of [`Array::full`](super::Array::full).
pub fn full(tile: &TileType, number: impl Into<Scalar>) -> Result<TileType, NumericError> {
    let tile = tile.clone().checked()?;
    Constant::new(number, tile.dtype)?;
    Ok(tile)
}

/// Returns the type of [`Array::arange`](super::Array::arange).
pub fn arange(
    dtype: DType,
    start: impl Into<Scalar>,
    count: u64,
) -> Result<TileType, NumericError> {
    let start = start.into();
    if dtype == DType::Bool {
        return Err(NumericError::Range { dtype });
    }
    let tile = TileType::new(dtype, &[count])?;
    if count > 0 {
        Constant::new(start, dtype)?;
        Constant::new(moved(start, count - 1), dtype)?;
    }
    Ok(tile)
}
