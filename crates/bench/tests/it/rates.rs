//! Shares of the machine's bounds that benches reach, and the reasons they report otherwise.

use cubeyard_bench::{BenchError, Run, RunConfig, find, run};
use cubeyard_device::topology::Topology;
use cubeyard_sim::Span;
use cubeyard_tl::launch::Mode;

fn bench_of(name: &str, set: &[&str], data: bool) -> Result<Run, BenchError> {
    let (topology, set) = (Topology::embedded(), set.iter().map(|&text| text.to_owned()).collect());
    let config =
        RunConfig { topology, set, data, mode: Mode::Recorded, sips: Vec::new(), ops: false };
    run(&*find(name)?, &config)
}

fn share(name: &str, set: &[&str]) -> f64 {
    bench_of(name, set, false).unwrap().report.share()
}

#[test]
fn a_large_local_copy_reaches_the_bandwidth_of_the_memory() {
    let one = ["cubes=1", "pes=1"];
    for bytes in ["bytes=4194304", "bytes=1048576"] {
        let share = share("copy", &[bytes, one[0], one[1]]);
        assert!((0.95..=1.0).contains(&share), "{bytes}: {share}");
    }
    // Each PE has a memory of its own, so that many are no slower.
    let all = share("copy", &["bytes=1048576", "cubes=4"]);
    assert!((0.95..=1.0).contains(&all), "{all}");
}

#[test]
fn a_large_blocked_product_reaches_the_peak_rate() {
    for shape in [["m=1024", "k=1024", "n=1024"], ["m=512", "k=2048", "n=2048"]] {
        let share = share("gemm", &shape);
        assert!((0.9..=1.0).contains(&share), "{shape:?}: {share}");
    }
}

#[test]
fn the_published_product_takes_what_its_parts_take() {
    let published = ["m=32", "k=3072", "n=32", "staging=load-ref"];
    let report = bench_of("gemm", &published, false).unwrap().report;
    // See docs/gemm-published.md.
    let before = 1_000 + 1_000;
    let load = |bytes: u64| bytes * 1_000 / 256 + 13_020;
    let (a, b) = (load(32 * 3072 * 2), load(64 * 32 * 2));
    let (fetch, tile, keep) = (16_000, 16_384, 8_000);
    let c = load(32 * 32 * 4);
    let sum = before + a + 48 * b + fetch + tile + keep + c;
    assert_eq!(report.kernel, Span::from_ps(sum));
    assert_eq!(sum, 2_245_384);
    let tiled = bench_of("gemm", &[&published[..], &["layout=tiled"]].concat(), false).unwrap();
    assert_eq!(tiled.report.kernel, report.kernel, "a column of tiles is in tiles anyhow");
}

/// Returns the busy time of the matrix unit, in nanoseconds.
fn matrix_ns(set: &[&str]) -> f64 {
    let report = bench_of("gemm", set, false).unwrap().report;
    let unit = report.units.iter().find(|unit| unit.unit == "GEMM").unwrap();
    unit.max * report.kernel.ps() as f64 / 1000.0
}

#[test]
fn an_under_filled_tile_takes_as_long_as_a_full_one() {
    let of = |shape: [&str; 3]| matrix_ns(&[&shape[..], &["staging=load-load"]].concat());
    for shape in [["m=32", "k=64", "n=32"], ["m=1", "k=64", "n=32"], ["m=1", "k=1", "n=1"]] {
        assert!((of(shape) - 16.384).abs() < 1e-6, "{shape:?}: {}", of(shape));
    }
    let over = of(["m=33", "k=64", "n=32"]);
    assert!((over - 2.0 * 16.384).abs() < 1e-6, "one row more is one tile more: {over}");
}

#[test]
fn what_a_layout_costs() {
    for staging in ["staging=load-ref", "staging=ref-ref"] {
        let by_rows = share("gemm", &[staging]);
        let by_tiles = share("gemm", &[staging, "layout=tiled"]);
        assert!(by_tiles > 3.0 * by_rows, "{staging}: {by_rows} and {by_tiles}");
    }
    let by_tiles = share("gemm", &["staging=load-load", "layout=tiled"]);
    assert!(by_tiles > 0.85, "{by_tiles}");
}

#[test]
fn every_bench_comes_as_near_to_its_bound_as_we_say() {
    let cases: &[(&str, &[&str], f64)] = &[
        ("copy", &[], 0.95),
        ("copy", &["pattern=all-to-one"], 0.9),
        // Eight PEs share the connections of one side of a cube.
        ("copy", &["pattern=remote"], 0.13),
        ("gemm", &[], 0.9),
        ("layer-norm", &[], 0.55),
        ("layer-norm", &["rows=4096"], 0.65),
        ("rms-norm", &["rows=4096"], 0.9),
        ("gqa-decode", &["context=8192"], 0.75),
        ("softmax", &[], 0.9),
        ("softmax", &["rows=4096"], 0.95),
        ("vector-add", &[], 0.95),
    ];
    for (name, set, least) in cases {
        let share = share(name, set);
        assert!((*least..=1.0).contains(&share), "{name} {set:?}: {share}");
    }
}

/// With an engine for each unit: at most 48 µs and 18 µs.
#[test]
fn attention_and_layer_norm_use_two_engines_at_the_same_time() {
    let blocks = ["sequence=1024", "head-dim=128", "block-q=128", "block-k=128"];
    for (name, set, [least, most]) in [
        // The matrix unit alone: two products of 32 tiles of 16.384 ns for each of 36 pairs of blocks.
        ("flash-attention", &blocks[..], [36 * 2 * 32 * 16_384, 48_000_000]),
        // The vector unit alone: eight simple operations and a sum, which counts twice, less the mean.
        ("layer-norm", &["rows=4096"], [8 * 2_048_000, 18_000_000]),
    ] {
        let text = "pe: {core: {compute_engines: separate}}";
        let topology = Topology::read("two engines", text).unwrap();
        let set = set.iter().map(|&text| text.to_owned()).collect();
        let (mode, sips) = (Mode::Recorded, Vec::new());
        let config = RunConfig { topology, set, data: false, mode, sips, ops: false };
        let time = run(&*find(name).unwrap(), &config).unwrap().report.kernel.ps();
        assert!((least..=most).contains(&time), "{name}: {time} ps");
    }
}

#[test]
fn numbers_are_right_whatever_the_parameters() {
    let cases: &[(&str, &[&str])] = &[
        ("copy", &["pattern=remote", "bytes=10001", "block=1000", "cubes=3", "pes=2"]),
        ("copy", &["pattern=all-to-one", "bytes=4099", "block=512", "cubes=2", "pes=3"]),
        ("copy", &["bytes=1", "cubes=1", "pes=1"]),
        ("gemm", &["m=70", "k=200", "n=50", "staging=ref-ref", "layout=tiled"]),
        ("gemm", &["m=70", "k=200", "n=50", "staging=load-ref", "layout=tiled", "dtype=bf16"]),
        ("gemm", &["m=70", "k=200", "n=50", "staging=load-load", "dtype=fp8_e4m3"]),
        ("gemm", &["m=70", "k=200", "n=50", "staging=ref-ref", "dtype=i8"]),
        ("gemm", &["m=70", "k=200", "n=50", "block-m=32", "block-k=96", "block-n=7", "dtype=f32"]),
        ("gemm", &["m=1", "k=1", "n=1", "dtype=u8"]),
        ("layer-norm", &["rows=33", "columns=100", "tile=3", "dtype=f32"]),
        ("layer-norm", &["rows=16", "columns=768", "dtype=bf16"]),
        // Rows longer than a strip.
        ("layer-norm", &["rows=8", "columns=2049", "tile=2"]),
        ("layer-norm", &["rows=8", "columns=3000", "tile=2", "dtype=f32"]),
        ("rms-norm", &["rows=33", "columns=100", "tile=3", "dtype=f32"]),
        ("rms-norm", &["rows=16", "columns=768", "dtype=bf16"]),
        // Rows longer than a strip.
        ("rms-norm", &["rows=8", "columns=2049", "tile=2"]),
        ("rms-norm", &["rows=8", "columns=3000", "tile=2", "dtype=f32"]),
        ("softmax", &["rows=33", "columns=100", "tile=3", "dtype=f32"]),
        ("softmax", &["rows=16", "columns=5000", "tile=1", "dtype=bf16"]),
    ];
    for (name, set) in cases {
        let Run { report, findings, .. } = bench_of(name, set, true).unwrap();
        let check = report.check.unwrap();
        assert!(check.passed(), "{name} {set:?}: {check:?}");
        assert!(findings.is_empty(), "{name} {set:?}: {findings:?}");
        assert!(report.share() <= 1.0, "{name} {set:?}: {}", report.share());
    }
}

#[test]
fn parameters_that_do_not_go_together_are_named() {
    let cases: &[(&str, &[&str], &str)] = &[
        ("copy", &["pattern=remote", "cubes=1"], "cubes=1"),
        ("softmax", &["rows=7"], "rows=7"),
        ("layer-norm", &["rows=7"], "rows=7"),
        ("rms-norm", &["rows=7"], "rows=7"),
        ("gemm", &["layout=tiled"], "layout=tiled"),
    ];
    for (name, set, part) in cases {
        let error = bench_of(name, set, false).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains(part), "{error}");
        assert!(error.contains("expected"), "{error}");
    }
    for name in ["copy", "layer-norm", "softmax"] {
        let error = bench_of(name, &["cubes=64"], false).unwrap_err().to_string();
        assert!(error.contains("64") && error.contains("16"), "{name}: {error}");
    }
    let error = bench_of("gemm", &["m=4096", "k=4096", "staging=load-ref"], false).unwrap_err();
    assert!(error.to_string().contains("gemm.rs:"), "too large for the TCM, and where: {error}");
}
