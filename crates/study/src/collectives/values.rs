//! Inputs of a collective, and its expected results computed in plain loops.

use std::borrow::Cow;
use std::ops::Range;

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{DistError, PeElements, RankMap};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, Tensor};
use cubeyard_tl::numeric::rounding;

use super::{ResultCheck, SweepConfig};

/// Inputs and results of a row.
pub(super) struct SweepValues<'a> {
    pub(super) config: &'a SweepConfig,
    pub(super) map: &'a RankMap,
    pub(super) shape: PeElements,
}

impl SweepValues<'_> {
    /// Returns the input of a SIP, with a row for each of its PEs.
    pub(super) fn input(&self, context: &Context, sip: usize) -> Result<Tensor, DistError> {
        let rows = self.rows();
        let all = 0..self.length();
        let values = (0..rows).flat_map(|row| self.part(self.owner(sip, row), all.clone()));
        let values: Vec<f64> = values.collect();
        let tensor = context.from_slice(&[rows as u64, self.shape.input], &values)?;
        Ok(tensor.to_dtype(self.config.dtype)?)
    }

    /// Checks the outputs, one per SIP.
    pub(super) fn check(&self, outputs: &[&Tensor]) -> Result<ResultCheck, DistError> {
        let (joined, mut check) = (self.joined(), ResultCheck::default());
        // Outputs of the first rank, by PE position.
        let mut firsts: Vec<Vec<u8>> = Vec::new();
        for (sip, output) in outputs.iter().enumerate() {
            let bytes = output.read_bytes()?.known()?;
            for (row, bytes) in bytes.chunks(bytes.len() / self.rows()).enumerate() {
                let (rank, position) = self.owner(sip, row);
                if rank == 0 {
                    firsts.push(bytes.to_vec());
                }
                let Some(expected) = self.expected((rank, position), &joined) else { continue };
                check.wrong += self.wrong(bytes, &expected);
                if self.config.operation.gives_all_the_same() {
                    check.differing += self.differing(bytes, &firsts[position]);
                }
            }
        }
        Ok(check)
    }

    /// Returns the number of elements that differ from the expected values.
    fn wrong(&self, bytes: &[u8], expected: &[f64]) -> u64 {
        let dtype = self.config.dtype;
        let found = bytes.chunks_exact(dtype.width()).map(|bytes| dtype.decode(bytes));
        found.zip(expected).filter(|(found, expected)| !self.is_close(*found, **expected)).count()
            as u64
    }

    /// Returns the number of elements whose bits differ between ranks.
    fn differing(&self, bytes: &[u8], first: &[u8]) -> u64 {
        let width = self.config.dtype.width();
        let pairs = bytes.chunks_exact(width).zip(first.chunks_exact(width));
        pairs.filter(|(own, first)| own != first).count() as u64
    }

    fn rows(&self) -> usize {
        self.map.pes_per_sip()
    }

    /// Returns the rank of a PE of a SIP, and the PE's position in the rank.
    fn owner(&self, sip: usize, row: usize) -> (usize, usize) {
        let place = sip * self.rows() + row;
        (place / self.map.positions(), place % self.map.positions())
    }

    /// Returns a range of a PE's input.
    fn part(
        &self,
        (rank, position): (usize, usize),
        range: Range<usize>,
    ) -> impl Iterator<Item = f64> {
        let first = position * self.length();
        range.map(move |index| self.value(rank, (first + index) as u64))
    }

    /// Returns the number of elements of a PE's input.
    fn length(&self) -> usize {
        usize::try_from(self.shape.input).expect("it is in memory")
    }

    /// Returns a whole number small enough that results over hundreds of ranks fit every type. If floats are reduced,
    /// every fourth number is one whose result depends on the order of ranks.
    fn value(&self, rank: usize, index: u64) -> f64 {
        let number = index * 7 + rank as u64 * 3 + index / 5;
        if let Some(op) = self.config.operation.op()
            && self.config.dtype.is_float()
            && index % 4 == 3
        {
            return ordered_value(op, rank, number);
        }
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

    /// Returns the expected output of a PE, given the combined inputs at each position; `None` where the
    /// operation leaves it undefined.
    fn expected<'a>(
        &self,
        (rank, position): (usize, usize),
        joined: &'a [Vec<f64>],
    ) -> Option<Cow<'a, [f64]>> {
        let (ranks, length) = (self.map.world().ranks, self.length());
        let all = 0..length;
        let mine = length * rank / ranks..length * (rank + 1) / ranks;
        let of_all = |range: Range<usize>| {
            (0..ranks).flat_map(|rank| self.part((rank, position), range.clone())).collect()
        };
        let of_one = |root, range| self.part((root, position), range).collect();
        Some(match self.config.operation {
            Operation::AllReduce(_) => joined[position].as_slice().into(),
            Operation::Reduce(_, root) if rank == root => joined[position].as_slice().into(),
            Operation::ReduceScatter(_) => joined[position][mine].into(),
            Operation::Broadcast(root) => of_one(root, all),
            Operation::Scatter(root) => of_one(root, mine),
            Operation::AllGather => of_all(all),
            Operation::Gather(root) if rank == root => of_all(all),
            Operation::AllToAll => of_all(mine),
            Operation::Reduce(..) | Operation::Gather(_) => return None,
        })
    }

    /// Returns the combined inputs of all ranks at each position; empty if the operation combines nothing.
    /// Computed once, because repeating it for each rank would take longer than the simulation.
    fn joined(&self) -> Vec<Vec<f64>> {
        let (Operation::AllReduce(op) | Operation::Reduce(op, _) | Operation::ReduceScatter(op)) =
            self.config.operation
        else {
            return Vec::new();
        };
        let ranks = self.map.world().ranks;
        let share = if op == ReduceOp::Avg { ranks as f64 } else { 1.0 };
        let whole = |position| {
            let part = |rank| self.part((rank, position), 0..self.length());
            let mut whole: Vec<f64> = part(0).collect();
            for rank in 1..ranks {
                whole
                    .iter_mut()
                    .zip(part(rank))
                    .for_each(|(sum, value)| *sum = join(op, *sum, value));
            }
            whole.iter_mut().for_each(|value| *value /= share);
            whole
        };
        (0..self.map.positions()).map(whole).collect()
    }

    /// Returns whether a number is correct, up to one rounding per rank.
    fn is_close(&self, found: f64, expected: f64) -> bool {
        let ranks = self.map.world().ranks as f64;
        // One rounding for each operation, and one for the input if it is not whole.
        let roundings = if expected.fract() == 0.0 { ranks } else { ranks + 1.0 };
        let allowed = roundings * rounding(self.config.dtype) * expected.abs().max(1.0);
        (found - expected).abs() <= allowed
    }
}

/// Returns a value whose reduction depends on the order of ranks: a fraction, or a zero of either sign.
fn ordered_value(op: ReduceOp, rank: usize, number: u64) -> f64 {
    match op {
        ReduceOp::Sum | ReduceOp::Avg => 1.0 / (1 + number % 97) as f64,
        ReduceOp::Prod if rank < 3 => 1.0 + 1.0 / (3 + number % 5) as f64,
        ReduceOp::Prod => 1.0,
        _ if number.is_multiple_of(2) => 0.0,
        _ => -0.0,
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
