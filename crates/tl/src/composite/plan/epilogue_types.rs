//! Types in which the epilogues of a tiled operation compute.
//!
//! An epilogue computes in the type of the intermediate result, to which its operands are converted. An integer result
//! that meets a float operand becomes a float from there on: f32, or f64 if it has 64 bits or an operand is f64. So a
//! product of i8, summed in i32, is dequantised by f32 scales. Each step adds to the sum in the sum's type, so an
//! epilogue after each step must keep that type. The output is converted to its type at the end.

use cubeyard_runtime::Scalar;
use cubeyard_runtime::dtype::DType;

use super::super::{Composite, CompositeKind, Source};
use super::{PlanEpilogue, PlanOperand, PlanProblem};
use crate::numeric::{NumericError, TileType, infer};

impl PlanEpilogue {
    /// Returns the type in which the epilogue computes, given the type of the intermediate result.
    pub(in crate::composite) fn dtype(&self, result: DType) -> DType {
        if result.is_float() {
            return result;
        }
        let floats = self.operands.iter().filter_map(float);
        let wide = if result.size() == 8 { DType::F64 } else { DType::F32 };
        let joined = |dtype, float| {
            if float == DType::F64 || dtype == DType::F64 { DType::F64 } else { wide }
        };
        floats.fold(result, joined)
    }

    /// Returns the type of the epilogue's result, given the type of the intermediate result.
    fn infer(&self, result: &TileType) -> Result<TileType, PlanProblem> {
        let dtype = self.dtype(result.dtype);
        let mut types = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            types.push(match operand {
                PlanOperand::Result => result.with_dtype(dtype),
                PlanOperand::Number(number) => infer::full(&TileType::scalar(dtype), *number)?,
                PlanOperand::Tile(input) => {
                    self.check_held(&input.ty, dtype)?;
                    input.ty.with_dtype(dtype)
                }
            });
        }
        Ok(self.op.infer(&types.iter().collect::<Vec<_>>())?)
    }

    /// Checks that an integer type can represent all integers of a tile.
    fn check_held(&self, tile: &TileType, dtype: DType) -> Result<(), PlanProblem> {
        if dtype.is_float() || holds(dtype, tile.dtype) {
            return Ok(());
        }
        let name = self.op.name();
        let text = format!(
            "{name} of {tile} to {dtype}: expected a type that {dtype} can hold, or a float"
        );
        Err(PlanProblem::Text(text))
    }
}

/// Returns the float type of an operand; `None` if it is an integer or the intermediate result.
fn float(operand: &PlanOperand) -> Option<DType> {
    match operand {
        PlanOperand::Number(Scalar::Float(_)) => Some(DType::F32),
        PlanOperand::Result | PlanOperand::Number(_) => None,
        PlanOperand::Tile(input) => Some(input.ty.dtype).filter(|dtype| dtype.is_float()),
    }
}

/// Returns whether an integer type can represent all values of another.
fn holds(dtype: DType, other: DType) -> bool {
    let is_signed = |dtype| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    match (is_signed(dtype), is_signed(other)) {
        _ if other == DType::Bool || other == dtype => true,
        (true, false) => other.size() < dtype.size(),
        (false, true) => false,
        _ => dtype != DType::Bool && other.size() <= dtype.size(),
    }
}

/// Returns the type of the intermediate result after the epilogues of output tiles, before the cast to the output's
/// type.
pub(super) fn check(
    composite: &Composite,
    epilogues: &[Vec<PlanEpilogue>; 3],
    output: &TileType,
) -> Result<TileType, PlanProblem> {
    let types: Vec<_> = composite.sources.iter().map(Source::ty).collect();
    let mut ty = composite.kind.output(&types)?;
    let [steps, tiles, end] = epilogues;
    for epilogue in steps {
        let next = epilogue.infer(&ty)?;
        if next.dtype != ty.dtype && !matches!(composite.kind, CompositeKind::Map(_)) {
            return Err(changed_sum(epilogue, ty.dtype, next.dtype));
        }
        ty = next;
    }
    let infer = |ty: TileType, epilogue: &PlanEpilogue| epilogue.infer(&ty);
    end.iter().try_fold(output.clone(), infer)?;
    tiles.iter().try_fold(ty, infer)
}

fn changed_sum(epilogue: &PlanEpilogue, sum: DType, next: DType) -> PlanProblem {
    let name = epilogue.op.name();
    PlanProblem::Text(format!(
        "{name} after each step makes {next} of a sum of {sum}, to which the next step adds: use after_tile"
    ))
}

impl From<NumericError> for PlanProblem {
    fn from(error: NumericError) -> Self {
        Self::Text(error.to_string())
    }
}
