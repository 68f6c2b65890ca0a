//! What ranks hold before a collective, and what they must hold after it, by plain loops.

use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, Tensor};

use super::SweepConfig;
use super::measure::Shape;
use crate::collective::{Operation, ReduceOp};
use crate::distributed::error::DistError;
use crate::distributed::places::Places;

/// The numbers of a row.
pub(super) struct Values<'a> {
    pub(super) config: &'a SweepConfig,
    pub(super) places: &'a Places,
    pub(super) shape: Shape,
}

impl Values<'_> {
    /// What a SIP holds, a row for each of its PEs.
    pub(super) fn input(&self, context: &Context, sip: usize) -> Result<Tensor, DistError> {
        let rows = self.rows();
        let values = (0..rows).flat_map(|row| self.part(self.owner(sip, row)));
        let values: Vec<f64> = values.collect();
        let tensor = context.from_slice(&[rows as u64, self.shape.input], &values)?;
        Ok(tensor.to_dtype(self.config.dtype)?)
    }

    /// How many numbers of the outputs, one a SIP, are not what they must be.
    pub(super) fn wrong(&self, outputs: &[&Tensor]) -> Result<u64, DistError> {
        let mut wrong = 0;
        for (sip, output) in outputs.iter().enumerate() {
            let width = self.config.dtype.width();
            let bytes = output.read_bytes()?;
            let found: Vec<f64> =
                bytes.chunks_exact(width).map(|bytes| self.config.dtype.decode(bytes)).collect();
            let rows = found.chunks(found.len() / self.rows());
            for (row, found) in rows.enumerate() {
                let Some(expected) = self.expected(self.owner(sip, row)) else { continue };
                let pairs = found.iter().zip(&expected);
                wrong += pairs
                    .filter(|(found, expected)| !self.is_close(**found, **expected))
                    .count() as u64;
            }
        }
        Ok(wrong)
    }

    fn rows(&self) -> usize {
        self.places.cubes.len() * self.places.pes.len()
    }

    /// The rank that a PE of a SIP belongs to, and its position there.
    fn owner(&self, sip: usize, row: usize) -> (usize, usize) {
        let place = sip * self.rows() + row;
        (place / self.places.positions(), place % self.places.positions())
    }

    /// What a PE holds at first.
    fn part(&self, (rank, position): (usize, usize)) -> Vec<f64> {
        let first = position as u64 * self.shape.input;
        (first..first + self.shape.input).map(|index| self.value(rank, index)).collect()
    }

    /// Whole numbers that are small enough for every type, joined over hundreds of ranks.
    fn value(&self, rank: usize, index: u64) -> f64 {
        let number = index * 7 + rank as u64 * 3 + index / 5;
        let number = match self.config.operation {
            _ if self.config.dtype == DType::Bool => number % 2,
            Operation::AllReduce(op) | Operation::Reduce(op, _) | Operation::ReduceScatter(op) => {
                match op {
                    ReduceOp::Sum | ReduceOp::Avg => u64::from(number.is_multiple_of(3)),
                    ReduceOp::Prod => 1 + u64::from(rank < 3) * (number % 2),
                    _ => number % 5,
                }
            }
            _ => number % 5,
        };
        number as f64
    }

    /// What a PE must hold at last; none where that is not said.
    fn expected(&self, (rank, position): (usize, usize)) -> Option<Vec<f64>> {
        let ranks = self.places.world().ranks;
        let length = usize::try_from(self.shape.input).expect("it is in memory");
        let inputs = || (0..ranks).map(|rank| self.part((rank, position)));
        let mine = length * rank / ranks..length * (rank + 1) / ranks;
        match self.config.operation {
            Operation::AllReduce(op) => Some(self.joined(op, position)),
            Operation::Reduce(op, root) => (rank == root).then(|| self.joined(op, position)),
            Operation::ReduceScatter(op) => Some(self.joined(op, position)[mine].to_vec()),
            Operation::Broadcast(root) => Some(self.part((root, position))),
            Operation::AllGather => Some(inputs().flatten().collect()),
            Operation::Gather(root) => (rank == root).then(|| inputs().flatten().collect()),
            Operation::AllToAll => {
                Some(inputs().flat_map(|input| input[mine.clone()].to_vec()).collect())
            }
            Operation::Scatter(root) => Some(self.part((root, position))[mine].to_vec()),
        }
    }

    /// What joins the parts of all ranks at a position.
    fn joined(&self, op: ReduceOp, position: usize) -> Vec<f64> {
        let ranks = self.places.world().ranks;
        let parts = (0..ranks).map(|rank| self.part((rank, position)));
        let add = |sum: Vec<f64>, part: Vec<f64>| {
            sum.into_iter().zip(part).map(|(a, b)| join(op, a, b)).collect()
        };
        let whole = parts.reduce(add).unwrap_or_default();
        let share = if op == ReduceOp::Avg { ranks as f64 } else { 1.0 };
        whole.into_iter().map(|value| value / share).collect()
    }

    /// Whether a number is right, up to what a rounding for each rank may change.
    fn is_close(&self, found: f64, expected: f64) -> bool {
        let ranks = self.places.world().ranks as f64;
        let allowed = ranks * rounding(self.config.dtype) * expected.abs().max(1.0);
        (found - expected).abs() <= allowed
    }
}

#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn join(op: ReduceOp, a: f64, b: f64) -> f64 {
    let bits = (a as i64, b as i64);
    match op {
        ReduceOp::Sum | ReduceOp::Avg => a + b,
        ReduceOp::Prod => a * b,
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
        ReduceOp::Band => (bits.0 & bits.1) as f64,
        ReduceOp::Bor => (bits.0 | bits.1) as f64,
        ReduceOp::Bxor => (bits.0 ^ bits.1) as f64,
    }
}

/// What a value may change by when it is rounded, relative to it.
fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2_f64.powi(-11),
        DType::Bf16 => 2_f64.powi(-8),
        DType::F32 => 2_f64.powi(-24),
        DType::F64 => 2_f64.powi(-53),
        DType::Fp8E4m3 => 2_f64.powi(-4),
        DType::Fp8E5m2 => 2_f64.powi(-3),
        _ => 0.0,
    }
}
