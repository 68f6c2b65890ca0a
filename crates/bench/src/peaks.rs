//! Peak rates of the units of a PE, and the minimum times that follow.

use cubeyard_device::pe::OpUnit;
use cubeyard_device::topology::{ComputeEngines, CoreSpec, Topology};
use cubeyard_sim::{Bandwidth, Span};

use super::Work;
use crate::report::Bound;

/// Returns the peak FLOP/s of one PE, for the unit that does the work; 0 if the bench computes nothing.
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
///
/// Work is spread over `pes` PEs in some way. One of them has at least the mean, and can do no better than to keep one
/// of its units busy without a gap. So no run is faster than any unit's time for the mean.
pub(super) fn bounds(work: &Work, topology: &Topology, pes: u64) -> Vec<Bound> {
    let pes = pes.max(1);
    let mut bounds = engines(work, &topology.spec().pe.core, pes);
    bounds.extend(memory(work, topology, pes));
    bounds.extend(work.links.iter().cloned());
    bounds
}

/// Returns the bounds of the bytes that leave or enter memory: the bound of the memories, and, if it is larger, the
/// bound of the PEs' wires, which carry both directions at once.
fn memory(work: &Work, topology: &Topology, pes: u64) -> Vec<Bound> {
    let memories = work.memories.unwrap_or(pes).max(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole bytes")]
    let rate = Bandwidth::from_bytes_per_second(topology.spec().hbm.peak_both_ways() as u64);
    let hbm = rate.map(|rate| rate.span(work.bytes.div_ceil(memories)));
    let wire = topology.spec().pe.link.bandwidth.span(work.bytes.div_ceil(2 * pes));
    let wire = Some(wire).filter(|wire| hbm.is_none_or(|hbm| *wire > hbm));
    [named("the HBM of a PE", hbm), named("the link of a PE", wire)].into_iter().flatten().collect()
}

/// Returns the peak bandwidth of the PEs and memories of a run for reads and writes together, in bytes per second.
pub(super) fn peak_bandwidth(work: &Work, topology: &Topology, pes: u64) -> f64 {
    let wires = 2.0 * topology.spec().pe.link.bandwidth.bytes_per_second() as f64 * pes as f64;
    let memories = work.memories.unwrap_or(pes);
    wires.min(topology.spec().hbm.peak_both_ways() * memories as f64)
}

/// Returns the bounds of kernels as written, for a bench that states no work: for each unit, the longest
/// busy time over the PEs.
pub(super) fn recorded(busiest: impl Fn(OpUnit) -> Option<Span>) -> Vec<Bound> {
    const UNITS: [OpUnit; 6] = [
        OpUnit::Gemm,
        OpUnit::Math,
        OpUnit::Fetch,
        OpUnit::Keep,
        OpUnit::MathFetch,
        OpUnit::MathKeep,
    ];
    UNITS.into_iter().filter_map(|unit| named(unit.name(), busiest(unit))).collect()
}

/// Returns the bound of the busiest processor: it dispatches one call at a time, and each takes a fixed time.
///
/// It counts the calls of the kernel as written, unlike the work of the other bounds: this kernel cannot be faster, but
/// another kernel may need fewer calls.
pub(super) fn dispatch(busiest: Span) -> Option<Bound> {
    named("dispatch by PE_CPU", Some(busiest))
}

/// Returns the bounds of the compute engines of `pes` PEs. In a shared engine the times of matrix products and vector
/// operations add up, and so do their operands and results in the TCM; two engines have separate paths to the TCM.
fn engines(work: &Work, core: &CoreSpec, pes: u64) -> Vec<Bound> {
    let product = product(work, core);
    let vector = Some(core.math.simple.span(work.elements)).filter(|span| *span > Span::ZERO);
    // The mean over all PEs: at least one of them takes as long.
    let each = |span: Span| Span::from_ps(span.ps() / pes);
    let mut bounds = Vec::new();
    if let Some((name, span)) = &product {
        bounds.extend(named(name, Some(each(*span))));
    }
    bounds.extend(named("MATH", vector.map(each)));
    if let (ComputeEngines::Shared, Some((name, product)), Some(vector)) =
        (core.compute_engines, &product, vector)
    {
        bounds.extend(named(&format!("{name} and MATH"), Some(each(*product + vector))));
    }
    bounds.extend(
        tcm(work, core).into_iter().filter_map(|(name, span)| named(name, Some(each(span)))),
    );
    bounds
}

/// Returns the times of the paths from and to the TCM, for all PEs together. With two engines, either may store a
/// product (the vector unit after an epilogue), so one of the two paths stores at least half of all results.
fn tcm(work: &Work, core: &CoreSpec) -> Vec<(&'static str, Span)> {
    let ([read, stored], fetched) = (work.tcm, fetched(work, core));
    let all = stored + work.results;
    match core.compute_engines {
        ComputeEngines::Shared => vec![
            ("TCM read", core.tcm_read.span(read + fetched)),
            ("TCM write", core.tcm_write.span(all)),
        ],
        ComputeEngines::Separate => vec![
            ("TCM read of GEMM", core.tcm_read.span(fetched)),
            ("TCM read of MATH", core.tcm_read.span(read)),
            ("TCM write", core.tcm_write.span(stored.max(all / 2))),
        ],
    }
}

/// Returns the name and time of the matrix products on one PE.
///
/// In a tile, useful rows, useful columns and useful terms of a sum are at most the left factor's rows, the right
/// factor's columns and the product's depth. So a tile is filled at most to the smallest of these three fractions, with
/// the factors in either order; a partial tile takes the time of a full one.
fn product(work: &Work, core: &CoreSpec) -> Option<(String, Span)> {
    let (dtype, flop) = work.gemm?;
    let rate = Bandwidth::from_bytes_per_second(*core.gemm.rates.get(dtype.name())?)?;
    let whole = |lengths: [u64; 3]| {
        let padded = edges(core)
            .into_iter()
            .zip(lengths)
            .map(|(edge, length)| share(flop, edge, edge.min(length.max(1))));
        padded.max().unwrap_or(flop)
    };
    let span = rate.span(orders(work).map(whole).into_iter().min().unwrap_or(flop));
    Some((format!("GEMM {dtype}"), span)).filter(|(_, span)| *span > Span::ZERO)
}

/// Returns the minimum bytes that matrix products fetch. A tile of `m × k` and `k × n` elements has at most 2 k times
/// the minimum of `m n`, the useful rows times `n`, and `m` times the useful columns as operations.
fn fetched(work: &Work, core: &CoreSpec) -> u64 {
    let Some((dtype, flop)) = work.gemm else { return 0 };
    let [m, _, n] = edges(core);
    let bytes = |[rows, _, columns]: [u64; 3]| {
        let pairs = [[m.min(rows.max(1)), n], [m, n.min(columns.max(1))]];
        let of = |[m, n]: [u64; 2]| share(flop, (m + n) * dtype.size(), 2 * m * n);
        pairs.map(of).into_iter().max().unwrap_or(0)
    };
    orders(work).map(bytes).into_iter().min().unwrap_or(0)
}

/// Returns the dimensions of the largest product with its factors in either order.
fn orders(work: &Work) -> [[u64; 3]; 2] {
    let [m, k, n] = work.largest.unwrap_or([u64::MAX; 3]);
    [[m, k, n], [n, k, m]]
}

fn edges(core: &CoreSpec) -> [u64; 3] {
    [core.gemm.m, core.gemm.k, core.gemm.n].map(u64::from)
}

/// Returns `amount · times / of`, rounded down.
fn share(amount: u64, times: u64, of: u64) -> u64 {
    let share = u128::from(amount) * u128::from(times) / u128::from(of.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Creates a bound, unless its time is zero.
fn named(resource: &str, span: Option<Span>) -> Option<Bound> {
    let span = span.filter(|span| *span > Span::ZERO)?;
    Some(Bound { resource: resource.to_owned(), span })
}

#[cfg(test)]
mod tests {
    use cubeyard_runtime::dtype::DType;

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
            ("TCM read", 1953.125),
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
            ("TCM read of GEMM", 1953.125),
            ("TCM read of MATH", 500.0),
        ];
        assert_eq!(found(&work, "separate"), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    /// Two PEs with 256 GB/s of HBM each, behind wires of 32 GB/s each way: a bound of the memory alone said that a copy
    /// reached 18 % of the possible speed.
    #[test]
    fn the_wire_of_a_pe_bounds_what_its_memory_could_give() {
        let slow = Topology::read("test.yaml", "pe: {link: {bandwidth_gbs: 32}}\n").unwrap();
        let work = Work { bytes: 256_000, ..Work::default() };
        let found = bounds(&work, &slow, 2);
        let found: Vec<_> = found.iter().map(|it| (it.resource.as_str(), it.span.ns())).collect();
        assert_eq!(found, [("the HBM of a PE", 500.0), ("the link of a PE", 2000.0)]);
        assert!((peak_bandwidth(&work, &slow, 2) - 128e9).abs() < 1.0);
        let found = bounds(&work, &Topology::embedded(), 2);
        assert_eq!(found.iter().map(|it| &*it.resource).collect::<Vec<_>>(), ["the HBM of a PE"]);
    }

    #[test]
    fn the_tcm_feeds_the_vector_engine() {
        let work = Work { elements: 1024, tcm: [2048, 1024], ..Work::default() };
        let expected = [("MATH", 2.0), ("TCM read", 2.0), ("TCM write", 1.0)];
        assert_eq!(found(&work, "shared"), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    /// Regression: the results of products did not count, and their paths to the TCM seemed idle.
    #[test]
    fn results_of_products_are_stored_by_one_engine_or_by_either_of_two() {
        let work = Work { results: 1_024_000, tcm: [0, 512_000], ..Work::default() };
        for (engines, ns) in [("shared", 1500.0), ("separate", 750.0)] {
            assert_eq!(found(&work, engines), [("TCM write".to_owned(), ns)]);
        }
        let work = Work { results: 512_000, tcm: [0, 1_024_000], ..Work::default() };
        assert_eq!(found(&work, "separate"), [("TCM write".to_owned(), 1000.0)]);
    }

    /// Four of sixteen rows are a quarter of a tile, in either order of the factors; so are four of a depth of sixteen.
    #[test]
    fn a_partial_tile_takes_the_time_of_a_full_one() {
        let gemm = Some((DType::F16, 16_000_000));
        for (largest, ns) in [
            ([4, 64, 64], [4000.0, 4882.812]),
            ([64, 64, 4], [4000.0, 4882.812]),
            ([64, 4, 64], [4000.0, 1953.125]),
            ([4, 64, 8], [4000.0, 4882.812]),
            ([16, 16, 16], [1000.0, 1953.125]),
        ] {
            let work = Work { gemm, largest: Some(largest), ..Work::default() };
            let expected = [("GEMM f16", ns[0]), ("TCM read", ns[1])];
            let expected = expected.map(|(name, ns)| (name.to_owned(), ns));
            assert_eq!(found(&work, "shared"), expected, "{largest:?}");
        }
    }
}
