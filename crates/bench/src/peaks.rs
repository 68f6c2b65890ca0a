//! Peak rates of the units of a PE, and the minimum times that follow.

use cubeyard_device::topology::{ComputeEngines, CoreSpec, Topology};
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::{Bandwidth, Span};

use super::Work;
use crate::report::Bound;

/// Returns the peak FLOP/s of one PE for the unit that does the work; 0 if it computes nothing.
pub(super) fn peak_rate(work: &Work, topology: &Topology) -> f64 {
    let core = &topology.spec().pe.core;
    let rate = match work.gemm {
        Some((dtype, _)) => core.gemm.rates.get(dtype.name()).copied().unwrap_or_default(),
        None if work.elements > 0 => core.math.simple.bytes_per_second(),
        None => 0,
    };
    rate as f64
}

/// Returns the minimum time that each resource allows for the work.
pub(super) fn bounds(work: &Work, topology: &Topology, pes: u64) -> Vec<Bound> {
    let pes = pes.max(1);
    let mut bounds = engines(work, &topology.spec().pe.core, pes);
    let memories = work.memories.unwrap_or(pes).max(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
    let rate = Bandwidth::from_bytes_per_second(topology.spec().hbm.peak_bytes_per_second() as u64);
    let hbm = rate.map(|rate| rate.span(work.bytes.div_ceil(memories)));
    bounds.extend(named("the HBM of a PE", hbm));
    bounds.extend(work.links.iter().cloned());
    bounds
}

/// Returns the bounds of the compute engines of `pes` PEs. In one engine the times of matrix products and vector
/// operations add up, and so do their operands and results in the TCM; two engines have a path to the TCM each.
fn engines(work: &Work, core: &CoreSpec, pes: u64) -> Vec<Bound> {
    let product = work.gemm.and_then(|(dtype, flop)| {
        let rate = Bandwidth::from_bytes_per_second(*core.gemm.rates.get(dtype.name())?)?;
        Some((format!("GEMM {dtype}"), rate.span(flop)))
    });
    let product = product.filter(|(_, span)| *span > Span::ZERO);
    let vector = Some(core.math.simple.span(work.elements)).filter(|span| *span > Span::ZERO);
    // The mean over all PEs: at least one of them takes as long.
    let each = |span: Span| Span::from_ps(span.ps() / pes);
    let mut bounds = Vec::new();
    if let Some((name, span)) = &product {
        bounds.extend(named(name, Some(each(*span))));
    }
    bounds.extend(named("MATH", vector.map(each)));
    let fetched = work.gemm.map_or(0, |(dtype, flop)| fetched(core, dtype, flop));
    let reads = |bytes: u64| Some(each(core.tcm_read.span(bytes)));
    match core.compute_engines {
        ComputeEngines::Shared => {
            if let (Some((name, product)), Some(vector)) = (&product, vector) {
                bounds.extend(named(&format!("{name} and MATH"), Some(each(*product + vector))));
            }
            bounds.extend(named("TCM reads", reads(work.tcm[0] + fetched)));
        }
        ComputeEngines::Separate => {
            bounds.extend(named("TCM reads of GEMM", reads(fetched)));
            bounds.extend(named("TCM reads of MATH", reads(work.tcm[0])));
        }
    }
    bounds.extend(named("TCM writes", Some(each(core.tcm_write.span(work.tcm[1])))));
    bounds
}

/// Returns the minimum bytes that matrix products fetch: a full tile takes `m × k` and `k × n` elements for 2 m
/// k n operations, and partial tiles take more per operation.
fn fetched(core: &CoreSpec, dtype: DType, flop: u64) -> u64 {
    let [m, n] = [core.gemm.m, core.gemm.n].map(u128::from);
    let bytes = u128::from(flop) * (m + n) * u128::from(dtype.size()) / (2 * m * n).max(1);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Makes a bound, unless its time is zero.
fn named(resource: &str, span: Option<Span>) -> Option<Bound> {
    let span = span.filter(|span| *span > Span::ZERO)?;
    Some(Bound { resource: resource.to_owned(), span })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of 16 × 16 × 16 at 8 TFLOP/s, 256 G elements per second, 512 GB/s of TCM, on two PEs.
    fn found(work: &Work, engines: &str) -> Vec<(String, f64)> {
        let text = "pe: {core: {gemm: {tile: [16, 16, 16], tflops: {f16: 8}}, math: {simple_geps: 256}, \
                    tcm_read_gbs: 512, tcm_write_gbs: 512, compute_engines: ";
        let topology = Topology::read("test.yaml", &format!("{text}{engines}}}}}\n")).unwrap();
        let bounds = bounds(work, &topology, 2).into_iter();
        bounds.map(|bound| (bound.resource, bound.span.ns())).collect()
    }

    /// Regression: products and vector operations were each bounded by the whole time of the shared engine.
    #[test]
    fn matrix_and_vector_work_share_an_engine() {
        let work =
            Work { gemm: Some((DType::F16, 16_000_000)), elements: 512_000, ..Work::default() };
        let found = found(&work, "shared");
        let expected = [
            ("GEMM f16", 1000.0),
            ("MATH", 1000.0),
            ("GEMM f16 and MATH", 2000.0),
            // Two bytes for every sixteen operations.
            ("TCM reads", 1953.125),
        ];
        assert_eq!(found, expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn matrix_and_vector_work_of_two_engines_overlap() {
        let gemm = Some((DType::F16, 16_000_000));
        let work = Work { gemm, elements: 512_000, tcm: [512_000, 0], ..Work::default() };
        let expected = [
            ("GEMM f16", 1000.0),
            ("MATH", 1000.0),
            ("TCM reads of GEMM", 1953.125),
            ("TCM reads of MATH", 500.0),
        ];
        assert_eq!(found(&work, "separate"), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn the_tcm_feeds_the_vector_engine() {
        let work = Work { elements: 1024, tcm: [2048, 1024], ..Work::default() };
        let expected = [("MATH", 2.0), ("TCM reads", 2.0), ("TCM writes", 1.0)];
        assert_eq!(found(&work, "shared"), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }
}
