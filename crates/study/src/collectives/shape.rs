//! Elements per PE of a row of a sweep.

use cubeyard_collectives::collective::Operation;
use cubeyard_collectives::distributed::RankMap;

use super::SweepConfig;

/// Elements per PE of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeElements {
    pub(super) bytes: u64,
    /// Number of elements of each PE's input and output.
    pub(super) input: u64,
    pub(super) output: u64,
}

impl PeElements {
    pub(super) fn new(config: &SweepConfig, map: &RankMap, size: u64) -> Self {
        let ranks = map.world().ranks as u64;
        let element = map.positions() as u64 * config.dtype.size();
        let (grows, shrinks) = config.operation.growth(ranks);
        let parts = match config.operation {
            Operation::AllReduce(_) | Operation::Reduce(..) | Operation::Broadcast(_) => 1,
            _ => ranks,
        };
        let elements = size.div_ceil(element * parts).max(1) * parts;
        let input = elements / grows;
        Self { bytes: elements * element, input, output: input * grows / shrinks }
    }
}
