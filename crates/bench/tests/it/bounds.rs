//! No run is quicker than its bounds: collectives and benches with other settings than their own.

use cubeyard_bench::{RunConfig, find, run};
use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::sweep::{Sweep, SweepConfig, Which};
use cubeyard_collectives::distributed::{CclConfig, Ranks};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::launch::Mode;

/// Every share of the bound that algorithms reach on a machine, and the greatest of them.
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
    };
    let sweep = Sweep::run(&config).unwrap();
    let figures = sweep.rows.iter().filter_map(|row| row.figures.as_ref().ok()?.share);
    figures.fold((0, 0.0), |(count, most), share| (count + 1, share.max(most)))
}

#[test]
fn no_collective_is_quicker_than_its_bound() {
    const SMALL: &str = "sips: {count: 2}\ncubes: {w: 3, h: 2}\nhbm: {bytes_per_cube: 256 MiB}\n";
    let mut seen = 0;
    for (ranks, sizes) in [
        (Ranks::Sip, [64 << 10, 1 << 20]),
        (Ranks::Cube, [8 << 10, 256 << 10]),
        (Ranks::Pe, [1 << 10, 32 << 10]),
    ] {
        for operation in Operation::all(ReduceOp::Sum, 1) {
            let (count, most) = shares(SMALL, ranks, operation, &sizes);
            assert!(count > 0 && most <= 1.0, "{operation} of {}: {most}", ranks.kind());
            seen += count;
        }
    }
    assert!(seen > 100, "{seen}");
}

/// The bound took every connection between two cubes for one that messages could use, where their routes lead over one
/// of four nearly always: cubes seemed to reach a tenth of what they could.
#[test]
fn cubes_of_a_sip_reach_a_fifth_of_their_bound() {
    let all_reduce = Operation::AllReduce(ReduceOp::Sum);
    let (count, most) = shares("sips: {count: 1}\n", Ranks::Cube, all_reduce, &[1 << 20]);
    assert_eq!(count, 6);
    assert!((0.2..=1.0).contains(&most), "{most}");
}

#[test]
fn no_bench_is_quicker_than_its_bounds_with_other_settings() {
    let cases = [
        ("flash-attention", vec!["sequence=256", "head-dim=128"]),
        ("gqa-decode", vec!["q-heads=256"]),
        ("layer-norm", vec!["dtype=f32", "rows=64"]),
        ("layer-norm", vec!["dtype=bf16", "columns=4096"]),
        ("softmax", vec!["dtype=f32", "tile=1"]),
        ("vector-add", vec!["elements=65536"]),
        ("gemm", vec!["m=32", "k=64", "n=32"]),
    ];
    for (name, set) in cases {
        let (bench, topology) = (find(name).unwrap(), Topology::embedded());
        let set = set.into_iter().map(str::to_owned).collect();
        let (data, mode, sips, ops) = (false, Mode::Recorded, Vec::new(), false);
        let report =
            run(&*bench, &RunConfig { topology, set, data, mode, sips, ops }).unwrap().report;
        let names: Vec<_> = report.bounds.iter().map(|bound| bound.resource.as_str()).collect();
        assert!(report.share() <= 1.0, "{name} {:?}: {}", report.parameters, report.verdict());
        assert!(names.contains(&"TCM reads"), "{name}: {names:?}");
    }
}
