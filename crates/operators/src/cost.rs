//! Cost of an operator, and the least time that peak rates allow.

use cubeyard_device::topology::{ComputeEngines, Topology};
use cubeyard_runtime::dtype::DType;

use crate::machine::{OperatorMachine, Ran};

/// Time of an operator on all PEs of a SIP, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorCost {
    /// Time in picoseconds, from the start of the first PE to the end of the last.
    pub ps: u64,
    /// Kernel that was simulated, with its tiles.
    pub kernel: String,
    /// Bytes that are read and written, each once.
    pub bytes: u64,
    /// Multiplications and additions of matrix products.
    pub flops: u64,
    /// Least time that the peak rates of the machine allow for this work.
    pub bound_ps: u64,
    /// Share of the moved bytes that a PE moves from or to its own slice of HBM.
    pub local_share: f64,
    /// Whether a part was simulated: some steps of a long kernel, or one PE where the accesses of all would meet on too many
    /// links. The rest follows from the time of a step in the steady state, and from the load of the links.
    pub extrapolated: bool,
}

/// Vector operations for each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vector {
    /// Operations at the rate of sums and products.
    pub simple: u64,
    /// Operations at the rate of exponentials, quotients and roots.
    pub special: u64,
}

/// Work of an operator, for its bound.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) bytes: u64,
    /// Multiplications and additions of matrix products, and their type.
    pub(crate) flops: u64,
    pub(crate) factor: Option<DType>,
    /// Elements times operations: simple, special, and reductions.
    pub(crate) vector: [u64; 3],
}

impl Work {
    /// Returns the least time on a machine, in picoseconds. Each PE has an equal share and keeps one of its units busy.
    pub(crate) fn bound(&self, topology: &Topology, pes: u64) -> u64 {
        let spec = topology.spec();
        let core = &spec.pe.core;
        let of = |amount: u64, rate: f64| amount as f64 / rate.max(1.0) / pes as f64 * 1e12;
        let wires = 2.0 * spec.pe.link.bandwidth.bytes_per_second() as f64;
        let memory = of(self.bytes, spec.hbm.peak_both_ways().min(wires));
        let rate = self.factor.and_then(|dtype| core.gemm.rates.get(dtype.name()).copied());
        let product = rate.map_or(0.0, |rate| of(self.flops, rate as f64));
        let math = [&core.math.simple, &core.math.special, &core.math.reduce];
        let math = math.map(|rate| rate.bytes_per_second() as f64);
        let vector: f64 = self.vector.iter().zip(math).map(|(count, rate)| of(*count, rate)).sum();
        let engines = match core.compute_engines {
            ComputeEngines::Shared => product + vector,
            ComputeEngines::Separate => product.max(vector),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "picoseconds of a bound"
        )]
        let bound = memory.max(engines).floor() as u64;
        bound
    }

    /// Returns the cost of a run.
    pub(crate) fn cost(
        &self,
        machine: &OperatorMachine,
        kernel: String,
        run: &Measured,
    ) -> OperatorCost {
        let [own, all] = run.ran.moved;
        OperatorCost {
            ps: run.ran.ps,
            kernel,
            bytes: self.bytes,
            flops: self.flops,
            bound_ps: self.bound(machine.topology(), machine.pes()),
            local_share: if all == 0 { 1.0 } else { own as f64 / all as f64 },
            extrapolated: run.extrapolated || run.ran.sampled,
        }
    }
}

/// Time of an operator, simulated whole or extrapolated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) ran: Ran,
    pub(crate) extrapolated: bool,
}

impl Measured {
    /// Returns both one after the other.
    pub(crate) fn then(self, other: Self) -> Self {
        let moved = [0, 1].map(|at| self.ran.moved[at] + other.ran.moved[at]);
        let sampled = self.ran.sampled || other.ran.sampled;
        let ran = Ran { ps: self.ran.ps + other.ran.ps, moved, sampled };
        Self { ran, extrapolated: self.extrapolated || other.extrapolated }
    }
}
