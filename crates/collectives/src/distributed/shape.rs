//! Number of elements per PE for a collective of a given size.

use cubeyard_runtime::dtype::DType;

use super::rank_map::RankMap;
use crate::collective::Operation;

/// Number of elements per PE for a collective of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeElements {
    /// Size in bytes, rounded up to a whole number of elements for each PE.
    pub bytes: u64,
    /// Number of elements of each PE's input.
    pub input: u64,
    /// Number of elements of each PE's output.
    pub output: u64,
}

impl PeElements {
    /// Computes the elements per PE of a collective of `size` bytes.
    pub fn new(operation: Operation, dtype: DType, map: &RankMap, size: u64) -> Self {
        let ranks = map.world().ranks as u64;
        let element = map.positions() as u64 * dtype.size();
        let (grows, shrinks) = operation.growth(ranks);
        let parts = match operation {
            Operation::AllReduce(_) | Operation::Reduce(..) | Operation::Broadcast(_) => 1,
            _ => ranks,
        };
        let elements = size.div_ceil(element * parts).max(1) * parts;
        let input = elements / grows;
        Self { bytes: elements * element, input, output: input * grows / shrinks }
    }
}
