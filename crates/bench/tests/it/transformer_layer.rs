//! Numbers of a transformer layer, compared with its reference.

use cubeyard_bench::{RunConfig, find, run};
use cubeyard_device::topology::Topology;
use cubeyard_tl::launch::Mode;

/// Two SIPs of two cubes with two PEs.
const SMALL: &str = "sips: {count: 2}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n";

fn small() -> Topology {
    Topology::read("small", SMALL).unwrap()
}

#[test]
fn a_layer_has_the_numbers_of_its_reference_however_sequences_are_dealt() {
    let bench = find("transformer-layer").unwrap();
    let shape = ["hidden=64", "ffn=64", "heads=8", "kv-heads=2"];
    for more in [
        // Parts of one sequence, more parts than tokens, PEs without a token of it, some PEs idle, a sequence each, several
        // each.
        &["batch=1", "context=50"][..],
        &["batch=1", "context=1"],
        &["batch=1", "context=5"],
        &["batch=1", "context=6"],
        &["batch=3", "context=9"],
        &["batch=4", "context=20"],
        &["batch=9", "context=5"],
        &["phase=prefill", "batch=1", "chunk=12", "context=40"],
        &["phase=prefill", "batch=2", "chunk=64", "context=22"],
        &["phase=prefill", "batch=4", "chunk=16", "context=20"],
    ] {
        let times = ["launches=one", "launches=parts"].map(|launches| {
            let set = shape.iter().chain(more).chain([&launches]).map(ToString::to_string);
            let (topology, mode, sips) = (small(), Mode::Recorded, Vec::new());
            let set = set.collect();
            let config = RunConfig { topology, set, data: true, mode, sips, ops: false };
            let run = run(&*bench, &config).unwrap_or_else(|error| panic!("{more:?}: {error}"));
            let check = run.report.check.expect("it was run with data");
            assert!(check.passed() && check.elements > 0, "{more:?} {launches}: {check:?}");
            assert!(run.findings.is_empty(), "{more:?} {launches}: {}", run.findings[0]);
            run.report.kernel
        });
        assert!(times[0] < times[1], "{more:?}: one launch is faster: {times:?}");
    }
}

/// Runs a layer with data, and checks its numbers.
fn check_layer(set: &[&str]) {
    for launches in ["launches=one", "launches=parts"] {
        check_launches(&[set, &[launches]].concat());
    }
}

fn check_launches(set: &[&str]) {
    let bench = find("transformer-layer").unwrap();
    let (topology, sips) = (small(), Vec::new());
    let set = set.iter().map(ToString::to_string).collect();
    let config = RunConfig { topology, set, data: true, mode: Mode::Recorded, sips, ops: false };
    let run = run(&*bench, &config).unwrap_or_else(|error| panic!("{:?}: {error}", config.set));
    let check = run.report.check.expect("it was run with data");
    assert!(check.passed() && check.elements > 0, "{:?}: {check:?}", config.set);
    assert!(run.findings.is_empty(), "{:?}: {}", config.set, run.findings[0]);
}

const PHASES: [&[&str]; 4] = [
    &["batch=1", "context=50"],
    &["batch=9", "context=5"],
    &["phase=prefill", "batch=1", "chunk=12", "context=40"],
    &["phase=prefill", "batch=4", "chunk=16", "context=20"],
];

#[test]
fn a_layer_that_the_machine_does_not_divide_has_the_numbers_of_its_reference() {
    for shape in [
        // Three quarters of a head for each cube; several heads in a slot; padding of heads.
        ["hidden=64", "ffn=64", "heads=6", "kv-heads=2", "head-dim=16"],
        ["hidden=64", "ffn=64", "heads=12", "kv-heads=6", "head-dim=16"],
        ["hidden=64", "ffn=64", "heads=9", "kv-heads=3", "head-dim=6"],
        // One head of K and V, copied to both SIPs; five heads of Q over them.
        ["hidden=64", "ffn=64", "heads=5", "kv-heads=1", "head-dim=16"],
        // Features that the PEs do not divide.
        ["hidden=63", "ffn=71", "heads=4", "kv-heads=2", "head-dim=10"],
    ] {
        for phase in PHASES {
            check_layer(&[&shape, phase].concat());
        }
    }
}

#[test]
fn layers_of_all_families_have_the_numbers_of_their_reference() {
    for family in ["family=qwen2", "family=qwen3", "family=gemma2"] {
        for phase in PHASES {
            let shape = ["hidden=64", "ffn=64", "heads=8", "kv-heads=2", family];
            check_layer(&[&shape, phase].concat());
        }
    }
}

#[test]
fn layers_with_weights_of_8_bits_have_the_numbers_of_their_reference() {
    for weights in ["weights=fp8", "weights=int8"] {
        for phase in PHASES {
            let shape = ["hidden=64", "ffn=64", "heads=8", "kv-heads=2", weights];
            check_layer(&[&shape, phase].concat());
        }
    }
}

#[test]
fn layers_of_experts_have_the_numbers_of_their_reference_wherever_experts_are() {
    let shape = ["hidden=64", "ffn=64", "heads=8", "kv-heads=2", "experts=6"];
    for placement in ["placement=split", "placement=sip", "placement=cube"] {
        for phase in PHASES {
            check_layer(&[&shape, phase, &[placement]].concat());
        }
    }
    // Three experts of each token; features that PEs do not divide; weights of 8 bits.
    for more in [["ffn=64", "active=3"], ["ffn=71", "active=2"], ["ffn=64", "weights=int8"]] {
        let shape = ["hidden=64", "heads=8", "kv-heads=2", "experts=6", "placement=sip"];
        check_layer(&[&shape, PHASES[1], &more].concat());
    }
}
