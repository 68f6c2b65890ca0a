//! Records of collectives that were performed.

use cubeyard_runtime::dtype::DType;
use cubeyard_sim::{Span, Time};

use super::{Exchange, Timing};

/// A collective that was performed.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Name, with the operator and the root.
    pub operation: String,
    /// Ranks of the world that took part; of a message the sender and the receiver.
    pub ranks: Vec<usize>,
    /// Element type of the tensors.
    pub dtype: DType,
    /// Size as `cubeyard ccl` counts it: the larger of a rank's input and output.
    pub bytes: u64,
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// Simulated time at which the last rank was ready.
    pub start: Time,
    /// Time from the start of the first PE to the end of the last.
    pub duration: Span,
    /// Bus bandwidth in GB/s, as nccl-tests define it, rounded to three decimals.
    pub bus_gbs: f64,
    /// Name of the process group.
    pub group: String,
    /// Line of the call of the first rank.
    pub at: String,
}

impl Record {
    pub(super) fn new(
        exchange: &Exchange,
        timing: Timing,
        start: Time,
        group: String,
        at: String,
    ) -> Self {
        let Timing { algorithm, duration, bytes } = timing;
        let rate = bytes as f64 / duration.ps().max(1) as f64 * 1e3 * exchange.bus_factor();
        let bus_gbs = format!("{rate:.3}").parse().expect("a number");
        let (operation, ranks) = (exchange.to_string(), exchange.ranks.clone());
        let dtype = exchange.dtype;
        Self { operation, ranks, dtype, bytes, algorithm, start, duration, bus_gbs, group, at }
    }
    /// Returns a key that differs between any two records that are not the same.
    pub(super) fn order(&self) -> impl Ord + '_ {
        let exchange = (&self.ranks, &self.operation, self.dtype, self.bytes);
        (self.start, exchange, &self.group, &self.at)
    }
}
