//! Result types of matrix products.

use cubeyard_runtime::dtype::DType;

use super::{Domain, same_dtype};
use crate::numeric::{Lengths, NumericError, Product, TileType};

/// Returns the result type of [`dot`](crate::numeric::dot).
pub fn dot(
    a: &TileType,
    b: &TileType,
    accumulator: Option<&TileType>,
) -> Result<TileType, NumericError> {
    product(a, b, &Product { accumulator, ..Product::default() })
}

/// Returns the result type of [`product`](crate::numeric::product).
pub fn product(
    a: &TileType,
    b: &TileType,
    with: &Product<'_, TileType>,
) -> Result<TileType, NumericError> {
    let scaled = with.scales.map(|scale| scale.is_some());
    check_types(a, b, scaled)?;
    let shape = shape(a, b)?;
    for (operand, scale) in [a, b].into_iter().zip(with.scales) {
        scale.map_or(Ok(()), |scale| check_scale(operand, scale))?;
    }
    let sum = sum_dtype(a.dtype, scaled.contains(&true));
    let expected = TileType::new(result(sum, with.out)?, &shape)?;
    match with.accumulator {
        Some(found) if *found != expected => {
            Err(NumericError::Accumulator { expected, found: found.clone() })
        }
        _ => Ok(expected),
    }
}

fn check_types(a: &TileType, b: &TileType, scaled: [bool; 2]) -> Result<(), NumericError> {
    Domain::Numbers.admit("dot", a)?;
    if scaled.contains(&true) {
        for tile in [a, b] {
            if !is_narrow(tile.dtype) && !is_byte(tile.dtype) && tile.dtype != DType::F32 {
                let (operation, tile) = ("dot_scaled", tile.clone());
                return Err(NumericError::NoSuchOperation { operation, tile });
            }
        }
    }
    let dequantised = |of: &TileType, other: &TileType, scaled: bool| {
        scaled && is_byte(of.dtype) && is_narrow(other.dtype)
    };
    let is_mixed = is_fp8(a.dtype) && is_narrow(b.dtype)
        || is_narrow(a.dtype) && is_fp8(b.dtype)
        || dequantised(a, b, scaled[0])
        || dequantised(b, a, scaled[1]);
    if is_mixed { Ok(()) } else { same_dtype("dot", a, b) }
}

/// Returns the shape of the product of two matrices, or of each pair of two batches of matrices.
fn shape(a: &TileType, b: &TileType) -> Result<Lengths, NumericError> {
    for tile in [a, b] {
        if !matches!(tile.shape.len(), 2 | 3) {
            let (operation, tile) = ("dot", tile.clone());
            return Err(NumericError::Rank { operation, tile, expected: "2 or 3" });
        }
    }
    let both = || (a.clone(), b.clone());
    let (mut shape, rank) = (a.shape.clone(), a.shape.len());
    if b.shape.len() != rank || a.shape[..rank - 2] != b.shape[..rank - 2] {
        let (a, b) = both();
        return Err(NumericError::DotBatches { a, b });
    }
    if a.shape[rank - 1] != b.shape[rank - 2] {
        let (a, b) = both();
        return Err(NumericError::DotShapes { a, b });
    }
    shape[rank - 1] = b.shape[rank - 1];
    Ok(shape)
}

/// Checks that each scale corresponds to a block of the operand.
fn check_scale(operand: &TileType, scale: &TileType) -> Result<(), NumericError> {
    let is_float = matches!(scale.dtype, DType::F32 | DType::F16 | DType::Bf16);
    let pairs = || operand.shape.iter().zip(&scale.shape);
    let divides = pairs().all(|(length, blocks)| *blocks > 0 && length.is_multiple_of(*blocks));
    if is_float && operand.shape.len() == scale.shape.len() && divides {
        return Ok(());
    }
    Err(NumericError::Scale { operand: operand.clone(), scale: scale.clone() })
}

/// Returns the type of a result, given the type of the sum.
fn result(sum: DType, out: Option<DType>) -> Result<DType, NumericError> {
    let out = out.unwrap_or(sum);
    let rounds = sum == DType::F32 && matches!(out, DType::F16 | DType::Bf16);
    if out == sum || rounds { Ok(out) } else { Err(NumericError::DotResult { sum, out }) }
}

/// Returns whether a type may be multiplied with an 8-bit float.
const fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16) || is_fp8(dtype)
}

const fn is_fp8(dtype: DType) -> bool {
    matches!(dtype, DType::Fp8E4m3 | DType::Fp8E5m2)
}

const fn is_byte(dtype: DType) -> bool {
    matches!(dtype, DType::I8 | DType::U8)
}

/// Returns the element type in which products accumulate.
pub(in crate::numeric) const fn sum_dtype(dtype: DType, is_scaled: bool) -> DType {
    match dtype {
        _ if is_scaled => DType::F32,
        DType::F64 => DType::F64,
        DType::I8 | DType::U8 | DType::I16 => DType::I32,
        DType::U16 | DType::I32 | DType::U32 | DType::I64 => DType::I64,
        DType::U64 => DType::U64,
        _ => DType::F32,
    }
}
