//! Benches whose parts are on several PEs, cubes and SIPs that send each other messages.

use cubeyard_bench::{BenchError, Run, RunConfig, find, run};
use cubeyard_collectives::collective::Wire;
use cubeyard_collectives::distributed::KernelChannels;
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::{Context, ContextConfig, RingConfig};
use cubeyard_tl::Port;
use cubeyard_tl::launch::{Launcher, Mode};

use crate::long_tests;

const SIX: &str = include_str!("../../../../topologies/six-sips-torus.yaml");

fn on(topology: Topology, name: &str, set: &str, sips: &[u32]) -> Result<Run, BenchError> {
    let set = set.split_whitespace().map(str::to_owned).collect();
    let sips = sips.iter().map(|&sip| SipId::new(sip).unwrap()).collect();
    let config = RunConfig { topology, set, data: true, mode: Mode::Recorded, sips, ops: false };
    run(&*find(name)?, &config)
}

fn asked(name: &str, set: &str) -> Result<Run, BenchError> {
    on(Topology::embedded(), name, set, &[])
}

/// Checks that a run has the right numbers, no findings in its kernels, and a time above its bound.
fn is_right(run: Result<Run, BenchError>, what: &str) -> Run {
    let run = run.unwrap_or_else(|error| panic!("{what}: {error}"));
    let check = run.report.check.expect("with data there is a check");
    assert!(check.passed() && check.elements > 0, "{what}: {check:?}");
    assert!(check.tolerance < 0.02, "{what}: {check:?}");
    assert_eq!(run.findings, [], "{what}");
    assert!(run.report.share() <= 1.0, "{what}: {}", run.report.share());
    run
}

fn right(name: &str, set: &str) -> Run {
    is_right(asked(name, set), &format!("{name} {set}"))
}

/// Checks that a bench is refused as unfit, with a message that contains `words`.
fn is_unfit(name: &str, set: &str, words: &str) {
    match asked(name, set) {
        Err(BenchError::Unfit(text)) => assert!(text.contains(words), "{name} {set}: {text}"),
        other => panic!("{name} {set}: {other:?}"),
    }
}

#[test]
fn gradients_become_their_mean_on_one_two_and_six_sips() {
    for dtype in ["f32", "f16", "bf16"] {
        let run = right("ddp", &format!("elements=5000 dtype={dtype}"));
        assert_eq!(run.report.check.unwrap().elements, 2 * 5000);
    }
    let alone = is_right(on(Topology::embedded(), "ddp", "elements=1000", &[1]), "one SIP");
    assert_eq!(alone.report.pes, 128);
    let six = Topology::read("six", SIX).unwrap();
    let all = is_right(on(six, "ddp", "elements=3000", &[]), "six SIPs");
    assert_eq!(all.report.pes, 6 * 128);
    is_unfit("ddp", "elements=127", "elements=127: expected at least 128, one for each PE");
}

#[test]
fn a_run_of_several_launches_takes_from_the_first_start_to_the_last_end() {
    let report = right("ddp", "elements=2000").report;
    let [reduce, barrier] = report.launches.as_slice() else { panic!("{:?}", report.launches) };
    assert!(reduce.0.starts_with("lrab all_reduce avg"), "{}", reduce.0);
    assert!(reduce.0.ends_with("(2 launches)") && barrier.0.contains("all_reduce max"));
    // The host takes its time between the two.
    assert!(report.kernel > reduce.1 + barrier.1);
    assert!(report.host > report.kernel);
}

/// Returns the bound of a resource, in picoseconds.
fn bound(run: &Run, resource: &str) -> u64 {
    let found = run.report.bounds.iter().find(|bound| bound.resource == resource);
    found.unwrap_or_else(|| panic!("{:?}", run.report.bounds)).span.ps()
}

#[test]
fn links_bound_messages_by_what_leaves_a_sip_or_a_pe() {
    // Of two ranks each must send as much as it has, and a SIP lets 512 GB/s through.
    let ddp = right("ddp", "elements=2000");
    assert_eq!(bound(&ddp, "links for all_reduce (injection)"), 8000 * 1000 / 512);
    // Each of two PEs sends 32 tokens of 256 bytes to the other's expert, and as many answers, by a route of 128 GB/s to the
    // other SIP.
    let moe = right("moe", "experts=2 pes=1 tokens=64 features=128 hidden=64 capacity=10000");
    assert_eq!(bound(&moe, "links of messages"), 2 * 32 * 256 * 1000 / 128);
    // As many rows as PEs: each sends 3 of 4, of 8 heads × 34 numbers, and keeps its own.
    let set = "q-heads=32 kv-heads=4 head-dim=32 context=64 cubes=1 pes=4";
    let attention = right("sequence-attention", set);
    assert_eq!(
        bound(&attention, "links for reduce_scatter (injection)"),
        3 * 4 * 8 * 34 * 1000 / 256
    );
}

#[test]
fn an_mlp_of_parts_is_the_whole_one_however_it_is_split() {
    let small = "features=128 hidden=256 tokens=3";
    for algorithm in long_tests::members(["ring", "direct", "tree", "halving-doubling"], 4) {
        right("tp-mlp", &format!("algorithm={algorithm} {small}"));
    }
    for ranks in long_tests::members(["sip", "cube"], 2) {
        right("tp-mlp", &format!("ranks={ranks} activation=silu features=256 hidden=512"));
    }
    let one = on(Topology::embedded(), "tp-mlp", "features=128 hidden=128", &[0]);
    assert_eq!(is_right(one, "one SIP").report.pes, 128);
    is_unfit("tp-mlp", "hidden=300", "hidden=300: expected a multiple of 256");
    is_unfit("tp-mlp", "ranks=sip features=100", "features=100: expected a multiple of 128");
    is_unfit("tp-mlp", "tokens=4096 features=4096", "choose fewer tokens or features");
}

#[test]
fn weights_are_read_once_by_all_ranks_together() {
    let report =
        right("tp-mlp", "ranks=sip algorithm=direct features=256 hidden=512 tokens=8").report;
    let (d, f, t) = (256, 512, 8);
    // x on each of 256 PEs, the weights once, and each SIP's half of the hidden features on each of its PEs.
    let layers = 2 * t * d * 256 + 2 * 2 * d * f + 256 * 2 * t * (f / 2);
    // Both SIPs load all of their sums, half to send and half to add to; then they receive half, and half again.
    let sums = 2 * (4 * t * d) * 2;
    assert_eq!(report.traffic.read, layers + sums);
}

#[test]
fn attention_over_a_spread_sequence_is_that_over_all_of_it() {
    let small = "q-heads=8 kv-heads=2 head-dim=32 block-k=16";
    for (cubes, pes) in [(1, 1), (1, 2), (1, 3), (1, 8), (2, 5), (3, 8), (16, 8)] {
        // Tokens that do not go up in the PEs: some have one more.
        right("sequence-attention", &format!("{small} context=150 cubes={cubes} pes={pes}"));
    }
    // More rows than PEs, as many, and fewer.
    for batch in [1, 2, 3, 5] {
        right("sequence-attention", &format!("{small} context=40 batch={batch} cubes=1 pes=4"));
    }
    right("sequence-attention", "context=16 q-heads=40 kv-heads=8 head-dim=64");
    is_unfit(
        "sequence-attention",
        "context=15",
        "context=15: expected at least 16, one for each PE",
    );
    is_unfit("sequence-attention", "q-heads=12", "q-heads=12: expected a multiple of 8");
}

#[test]
fn more_pes_read_a_long_sequence_in_less_time() {
    let time = |cubes| {
        let set = format!("context=16384 cubes={cubes} head-dim=64 q-heads=8");
        let set = set.split_whitespace().map(str::to_owned).collect();
        let (topology, mode) = (Topology::embedded(), Mode::Recorded);
        let config = RunConfig { topology, set, data: false, mode, sips: vec![], ops: false };
        run(&*find("sequence-attention").unwrap(), &config).unwrap().report.kernel.ps()
    };
    let [one, two, four] = [1, 2, 4].map(time);
    assert!(two < one && four < two, "{one} {two} {four}");
}

#[test]
fn experts_answer_the_tokens_that_they_take() {
    let small = "features=32 hidden=64";
    for top in [1, 2] {
        for skew in [0, 100] {
            right("moe", &format!("{small} top-k={top} skew={skew}"));
        }
        right("moe", &format!("{small} top-k={top} experts=32 tokens=64 capacity=1000"));
    }
    right("moe", &format!("{small} pes=1 cubes=3 experts=6 tokens=60"));
    let one = on(Topology::embedded(), "moe", "features=32 hidden=64 pes=1 experts=3", &[0]);
    assert_eq!(is_right(one, "one PE").report.pes, 1);
    is_unfit("moe", "experts=12", "experts=12: expected a multiple of 16, as many for each PE");
    is_unfit("moe", "tokens=100", "tokens=100: expected a multiple of 16");
}

#[test]
fn tokens_beyond_the_capacity_are_dropped_and_told() {
    let all = right("moe", "tokens=128 features=16 hidden=16 skew=100 capacity=10000").report.notes;
    assert!(all[0].ends_with("and 0 were dropped"), "{all:?}");
    // 256 choices, of which each of 16 experts takes 4.
    let few = right("moe", "tokens=128 features=16 hidden=16 skew=0 capacity=25").report.notes;
    assert!(few[0].contains("experts have 4 to 4 of at most 4, and 192 were dropped"), "{few:?}");
}

#[test]
fn wires_end_at_pes_that_are_there_and_go_when_dropped() {
    let context = Context::new(ContextConfig::default());
    let launcher = Launcher::new(&context);
    let (sip, cube) = (SipId::new(0).unwrap(), CubeId::new(0).unwrap());
    let pes = [0, 1].map(|pe| PeRef { sip, cube, pe: PeId::new(pe).unwrap() });
    let wire = |to| Wire { ends: [(0, Port(3)), (to, Port(3))] };
    let make = |wires: &[Wire]| KernelChannels::new(&launcher, &pes, wires, &RingConfig::default());
    let error = make(&[wire(1), wire(2)]).unwrap_err();
    assert_eq!(error.to_string(), "rank 2: expected a rank below 2");
    let one = make(&[wire(1)]).unwrap();
    let (took, bytes) = one.installation();
    // A ring of four slots of 4 KiB at each end.
    assert!(took.ps() > 0 && bytes == 2 * 4 * 4096, "{took} {bytes}");
    // Another one is another group, with ports of its own; a port of one group has one wire.
    let other = make(&[wire(1)]).unwrap();
    assert!(make(&[wire(1), wire(1)]).is_err());
    drop((one, other));
    make(&[wire(1)]).unwrap();
}
