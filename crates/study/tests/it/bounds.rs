//! No run is faster than its bounds: collectives and benches with settings other than their defaults.

use std::collections::BTreeMap;

use cubeyard_bench::report::RunReport;
use cubeyard_bench::{RunConfig, catalogue, find, run};
use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, Ranks};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use cubeyard_study::collectives::{Sweep, SweepConfig, Which};
use cubeyard_tl::launch::Mode;

use crate::long_tests;

/// Returns the number of runs on a machine, and the largest share of the bound that any of them reaches.
fn shares(text: &str, ranks: Ranks, operation: Operation, sizes: &[u64]) -> (usize, f64) {
    let mut ccl = CclConfig::embedded();
    ccl.each(|config| config.ranks = ranks);
    let config = SweepConfig {
        topology: Topology::read("machine.yaml", text).unwrap(),
        ccl,
        which: Which::All,
        operation,
        dtype: DType::F16,
        sizes: sizes.to_vec(),
        check_up_to: 0,
        every_memory: false,
    };
    let sweep = Sweep::run(&config).unwrap();
    let figures = sweep.rows.iter().filter_map(|row| row.figures.as_ref().ok()?.share);
    figures.fold((0, 0.0), |(count, most), share| (count + 1, share.max(most)))
}

#[test]
fn no_collective_is_quicker_than_its_bound() {
    const SMALL: &str = "sips: {count: 2}\ncubes: {w: 3, h: 2}\nhbm: {bytes_per_cube: 256 MiB}\n";
    let kinds = [
        (Ranks::Sip, [64 << 10, 1 << 20]),
        (Ranks::Cube, [8 << 10, 256 << 10]),
        (Ranks::Pe, [1 << 10, 32 << 10]),
    ];
    let all = kinds.iter().flat_map(|kind| Operation::all(ReduceOp::Sum, 1).map(|op| (kind, op)));
    let mut seen = 0;
    for (&(ranks, sizes), operation) in long_tests::members(all, 5) {
        let (count, most) = shares(SMALL, ranks, operation, &sizes);
        assert!(count > 0 && most <= 1.0, "{operation} of {}: {most}", ranks.kind());
        seen += count;
    }
    assert!(seen > if long_tests::all() { 100 } else { 20 }, "{seen}");
}

/// The bound counted every connection between two cubes, although routes nearly always use one of four. So cubes seemed
/// to reach a tenth of the bound.
#[test]
fn cubes_of_a_sip_reach_a_fifth_of_their_bound() {
    let all_reduce = Operation::AllReduce(ReduceOp::Sum);
    let (count, most) = shares("sips: {count: 1}\n", Ranks::Cube, all_reduce, &[1 << 20]);
    assert_eq!(count, 6);
    assert!((0.2..=1.0).contains(&most), "{most}");
}

/// With headers as large as flits a link moves half as much, and no collective is faster than this bound.
#[test]
fn headers_are_part_of_the_bound() {
    const SMALL: &str = "sips: {count: 2}\ncubes: {w: 2, h: 1}\nhbm: {bytes_per_cube: 256 MiB}\n";
    for (ranks, more) in [
        (Ranks::Cube, "flit_header_bytes: 256\n"),
        (Ranks::Pe, "flit_header_bytes: 16\nserial_nodes: ends\n"),
    ] {
        let (plain, machine) = (SMALL.to_owned(), format!("{SMALL}{more}"));
        let operation = Operation::AllReduce(ReduceOp::Sum);
        let [free, taken] =
            [plain, machine].map(|text| shares(&text, ranks, operation, &[16 << 10]));
        assert_eq!(free.0, taken.0);
        assert!(taken.1 > 0.0 && taken.1 <= 1.0, "{more}: {}", taken.1);
    }
}

/// Machines on which benches run: GEMM and MATH in one engine or in two, and messages that cost something.
const MACHINES: [&str; 3] = [
    "",
    "pe: {core: {compute_engines: separate}}\n",
    "pe: {core: {compute_engines: separate}}\nserial_nodes: all\nflit_header_bytes: 16\n",
];

/// Runs a bench without data, unless it needs them, and returns its report.
fn report(name: &str, set: &str, machine: &str) -> RunReport {
    let bench = find(name).unwrap();
    let topology = Topology::read("machine.yaml", machine).unwrap();
    let set = set.split_whitespace().map(str::to_owned).collect();
    let (data, mode, sips, ops) = (bench.needs_data(), Mode::Recorded, Vec::new(), false);
    let run = run(&*bench, &RunConfig { topology, set, data, mode, sips, ops });
    run.unwrap_or_else(|error| panic!("{name} on {machine:?}: {error}")).report
}

/// Checks that no bench is faster than a bound, on each machine; returns the largest share of each bench.
fn greatest_shares(cases: &[(&str, &str)], small: &str) -> BTreeMap<String, f64> {
    let mut greatest = BTreeMap::new();
    for machine in MACHINES {
        for (name, set) in cases {
            let report = report(name, set, &format!("{small}{machine}"));
            let share = report.share();
            assert!(share <= 1.0, "{name} {set} on {machine:?}: {}", report.verdict());
            let most: &mut f64 = greatest.entry((*name).to_owned()).or_default();
            *most = most.max(share);
        }
    }
    greatest
}

/// Small, middling and odd shapes. A bench that reaches half of its bound would fail if the bound were twice as long.
#[test]
fn no_bench_is_quicker_than_its_bounds() {
    let cases = [
        ("block-sparse", "m=128 k=128 n=16 block=16"),
        ("block-sparse", "m=512 k=512 n=128 density=100"),
        ("block-sparse", "m=63 k=49 n=5 block=7 density=50 pes=4"),
        ("copy", "bytes=4096 cubes=1"),
        ("copy", "bytes=65536"),
        ("copy", "pattern=all-to-one bytes=10001 block=1000 cubes=1"),
        ("flash-attention", "sequence=16 head-dim=16"),
        ("flash-attention", "sequence=512 head-dim=128 block-q=128 block-k=128"),
        ("flash-attention", "sequence=96 head-dim=128 causal=no heads=9"),
        ("gemm", "m=1 k=1 n=1"),
        ("gemm", "m=32 k=3072 n=32 staging=load-ref"),
        ("gemm", "m=512 k=512 n=512"),
        ("gemm", "m=5 k=200 n=250 dtype=i8"),
        ("gemm", "m=70 k=20 n=250 staging=load-load layout=tiled dtype=f32"),
        ("gemm-multi", "m=64 k=64 n=64"),
        ("gemm-multi", "m=512 k=512 n=512"),
        ("gemm-multi", "m=100 k=70 n=90 split=grid cubes=2 pes=3"),
        ("gqa-decode", "context=64"),
        ("gqa-decode", "context=2048"),
        ("gqa-decode", "q-heads=256 context=1000 block-k=99"),
        ("layer-norm", "rows=16 columns=128 dtype=f32"),
        ("layer-norm", "rows=512"),
        ("layer-norm", "rows=33 columns=2049 tile=3 dtype=bf16"),
        ("rms-norm", "rows=16 columns=128 dtype=f32"),
        ("rms-norm", "rows=512"),
        ("rms-norm", "rows=33 columns=2049 tile=3 dtype=bf16"),
        ("qkv", "shrink=32 tokens=8"),
        ("qkv", "shrink=4 tokens=64"),
        ("qkv", "shrink=16 tokens=21 cubes=3 pes=5"),
        ("sequence-attention", "context=64 q-heads=16 kv-heads=2 head-dim=32 cubes=1"),
        ("sequence-attention", "context=2048 cubes=1"),
        ("sequence-attention", "context=150 q-heads=12 kv-heads=3 head-dim=16 cubes=1 pes=5"),
        ("softmax", "rows=8 columns=64 dtype=f32"),
        ("softmax", "rows=512"),
        ("softmax", "rows=33 columns=3000 tile=1"),
        ("vector-add", "elements=4096"),
        ("vector-add", "elements=262144"),
        ("vector-add", "elements=10001 block=1000 dtype=f64 pes=3"),
    ];
    let greatest = greatest_shares(&cases, "");
    let low: Vec<_> = greatest.iter().filter(|(_, share)| **share < 0.5).collect();
    assert!(low.is_empty(), "bounds say little of {low:?}");
}

/// Benches whose parts exchange messages, on two SIPs of two cubes.
#[test]
fn no_bench_with_messages_is_quicker_than_its_bounds() {
    const SMALL: &str = "sips: {count: 2}\ncubes: {w: 2, h: 1}\nhbm: {bytes_per_cube: 256 MiB}\n";
    let cases = [
        ("ddp", "elements=1024"),
        ("ddp", "elements=131072"),
        ("ddp", "elements=1001 dtype=f16"),
        ("moe", "tokens=16 features=16 hidden=16"),
        ("moe", "tokens=128 features=128 hidden=256 skew=0"),
        ("moe", "tokens=32 features=100 hidden=60 skew=100 capacity=10000 cubes=2 experts=32"),
        ("tp-mlp", "tokens=8 features=64 hidden=128"),
        ("tp-mlp", "tokens=32 features=512 hidden=2048"),
        ("tp-mlp", "tokens=5 features=96 hidden=160 ranks=sip activation=silu"),
        ("transformer-layer", "hidden=64 ffn=64 heads=8 kv-heads=2 batch=9 context=5"),
        (
            "transformer-layer",
            "phase=prefill hidden=256 ffn=512 heads=8 kv-heads=2 batch=1 context=33 chunk=33",
        ),
    ];
    let greatest = greatest_shares(&cases, SMALL);
    assert_eq!(greatest.len(), 4);
    for (name, least) in [("ddp", 0.5), ("moe", 0.2), ("tp-mlp", 0.1)] {
        assert!(greatest[name] > least, "bounds say little of {name}: {}", greatest[name]);
    }
}

/// Dispatch is the bound of short commands; a partial tile counts as a full one.
#[test]
fn dispatch_and_partial_tiles_bind() {
    let slow = "pe: {core: {dispatch_cycles: 400}}\n";
    let report = report("vector-add", "elements=65536 block=64 pes=1", slow);
    let bound = report.bound().unwrap();
    // Two loads, a sum and a store for each block.
    let calls = 4 * 65_536 / 64;
    assert_eq!(bound.resource, "dispatch by PE_CPU");
    assert_eq!(
        bound.span,
        Topology::read("slow.yaml", slow).unwrap().spec().pe.core.dispatch * calls
    );
    assert!((0.9..=1.0).contains(&report.share()), "{}", report.share());
    let [one, full] =
        ["m=1", "m=32"].map(|rows| self::report("gemm", &format!("{rows} k=64 n=32"), ""));
    let gemm = |report: &RunReport| report.bounds[0].clone();
    assert_eq!(gemm(&one), gemm(&full));
}

/// Default sizes are large enough: a resource, not the start of a launch, takes most of the time.
#[test]
fn defaults_come_near_to_their_bounds() {
    for bench in catalogue() {
        let name = bench.name().to_owned();
        // Excluded: the host's part of the launches takes a large share of these benches.
        if matches!(&name[..], "tp-mlp" | "transformer-layer" | "ddp" | "block-sparse") {
            continue;
        }
        let report = report(&name, "", "");
        let least = if name == "moe" { 0.3 } else { 0.6 };
        assert!((least..=1.0).contains(&report.share()), "{name}: {}", report.verdict());
        assert!(report.kernel >= Span::from_ps(8_000_000), "{name}: {:?}", report.kernel);
    }
}
