//! What the units of a PE can do at most, and so how long work takes at least.

use cubeyard_device::topology::Topology;
use cubeyard_sim::Bandwidth;

use super::Work;
use crate::report::Bound;

/// FLOP/s of one PE, of the unit that the work is counted for; 0 if it computes nothing.
pub(super) fn peak_rate(work: &Work, topology: &Topology) -> f64 {
    let core = &topology.spec().pe.core;
    let rate = match work.gemm {
        Some((dtype, _)) => core.gemm.rates.get(dtype.name()).copied().unwrap_or_default(),
        None if work.elements > 0 => core.math.simple.bytes_per_second(),
        None => 0,
    };
    rate as f64
}

/// Bytes in a second of the HBM of one PE.
pub(crate) fn hbm(topology: &Topology) -> f64 {
    let hbm = &topology.spec().hbm;
    let channels = f64::from(hbm.channels) * hbm.channel_bandwidth.bytes_per_second() as f64;
    channels.min(hbm.link.bandwidth.bytes_per_second() as f64)
}

/// The least time that each resource allows for what had to be done.
pub(super) fn bounds(work: &Work, topology: &Topology, pes: u64) -> Vec<Bound> {
    let core = &topology.spec().pe.core;
    let mut bounds = Vec::new();
    let mut bound = |resource: String, rate: Option<Bandwidth>, amount: u64| {
        if let Some(rate) = rate.filter(|_| amount > 0) {
            bounds.push(Bound { resource, span: rate.span(amount) });
        }
    };
    if let Some((dtype, flop)) = work.gemm {
        let rate = core.gemm.rates.get(dtype.name()).copied();
        let rate = rate.and_then(Bandwidth::from_bytes_per_second);
        bound(format!("GEMM {dtype}"), rate, flop.div_ceil(pes.max(1)));
    }
    bound("MATH".to_owned(), Some(core.math.simple), work.elements.div_ceil(pes.max(1)));
    let memories = work.memories.unwrap_or(pes).max(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
    let rate = Bandwidth::from_bytes_per_second(hbm(topology) as u64);
    bound("the HBM of a PE".to_owned(), rate, work.bytes.div_ceil(memories));
    bounds.extend(work.links.iter().cloned());
    bounds
}
