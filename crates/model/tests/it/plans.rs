//! Plans: relations between their times, messages and memory, and those of a whole machine.

use cubeyard_device::topology::Topology;
use cubeyard_model::plan::{
    Network, Objective, Outcome, Plan, PlanChoice, PlanConfig, PlanReport, PlanRequest, World,
    measure_plan, search,
};
use cubeyard_model::{MeasureConfig, ModelError, ModelSpec, Phase, Workload, measure};
use cubeyard_sim::Span;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::long_tests::cases;
use crate::{config, small, tiny, work};

/// Four SIPs of two cubes with two PEs.
fn four() -> Topology {
    let text = "sips: {count: 4}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n";
    Topology::read("four", text).unwrap()
}

fn plans_of(topology: Topology, work: Workload) -> PlanConfig {
    PlanConfig::new(MeasureConfig { topology, ..config(tiny(), work) })
}

fn of(tp: u64, pp: u64, dp: u64) -> Plan {
    Plan { tp, pp, dp }
}

fn planned(config: &PlanConfig, plan: Plan) -> PlanReport {
    measure_plan(config, plan, &mut |_, _| ()).unwrap_or_else(|error| panic!("{plan}: {error}"))
}

fn refused(config: &PlanConfig, plan: Plan) -> String {
    measure_plan(config, plan, &mut |_, _| ()).unwrap_err().to_string()
}

#[test]
fn a_plan_of_all_sips_in_one_group_takes_the_time_of_a_step_to_the_picosecond() {
    for work in
        [work(Phase::Decode, 3, 40), work(Phase::Prefill, 2, 96), work(Phase::Prefill, 9, 32)]
    {
        let whole = measure(&config(tiny(), work), &mut |_, _| ()).unwrap();
        let request: PlanRequest = "pp=1".parse().unwrap();
        let report = planned(&plans_of(small(), work), request.plan(2).unwrap());
        assert_eq!((report.plan, report.latency()), (of(2, 1, 1), whole.total));
        assert_eq!((report.period(), report.rate()), (whole.total, whole.rate()));
        assert_eq!(report.stages[0].report.memory, whole.memory);
        assert_eq!(report.stages[0].memory, whole.memory);
        assert_eq!((report.bound(), report.utilisation()), (whole.bound(), 1.0));
    }
}

#[test]
fn stages_hold_the_weights_of_the_model_to_the_byte() {
    let work = work(Phase::Decode, 2, 64);
    let config = plans_of(four(), work);
    let bytes = |plan| {
        let report = planned(&config, plan);
        let sum = |of: fn(&cubeyard_model::report::Memory) -> u64| -> u64 {
            report.stages.iter().map(|stage| of(&stage.memory)).sum()
        };
        (sum(|memory| memory.weights.all), sum(|memory| memory.cache.all))
    };
    // Two features: one SIP holds each weight once, so stages add up exactly, table and head included.
    let whole = bytes(of(1, 1, 1));
    for pp in [2, 3] {
        assert_eq!(bytes(of(1, pp, 1)), whole, "{pp} stages");
    }
    // Groups of two SIPs hold the table twice, as the whole machine does.
    assert_eq!(bytes(of(2, 2, 1)), bytes(of(2, 1, 1)));
    let spec = tiny();
    let norms = spec.hidden * (2 * spec.layers + 1);
    assert_eq!(whole.0, 2 * (spec.parameters() - norms));
}

#[test]
fn the_latency_is_the_sum_of_the_stages_and_of_the_boundaries() {
    let report = planned(&plans_of(four(), work(Phase::Decode, 3, 40)), of(1, 3, 1));
    let stages: Span = report.stages.iter().map(|stage| stage.report.total).sum();
    let boundaries: Span = report.boundaries.iter().map(|boundary| boundary.time).sum();
    assert_eq!((report.stages.len(), report.boundaries.len()), (3, 2));
    assert_eq!(report.latency(), stages + boundaries);
    assert_eq!(report.path().iter().map(|(_, time)| *time).sum::<Span>(), report.latency());
    // Only the first stage looks up tokens, and only the last computes logits.
    let has = |stage: usize, name| {
        report.stages[stage].report.parts.iter().any(|part| part.part.name() == name)
    };
    assert_eq!([0, 1, 2].map(|stage| has(stage, "embedding")), [true, false, false]);
    assert_eq!([0, 1, 2].map(|stage| has(stage, "head")), [false, false, true]);
    // A layer more is the time of a layer more: stages of 2 and 1 layers differ by that of the layers of one SIP.
    let one = planned(&plans_of(four(), work(Phase::Decode, 3, 40)), of(1, 1, 1));
    let apart = stages.ns() / one.latency().ns() - 1.0;
    assert!(apart.abs() < 0.02, "stages take {stages:?}, and one SIP {:?}", one.latency());
}

#[test]
fn messages_are_those_of_the_closed_forms_and_no_faster_than_their_link() {
    let spec = tiny();
    for (phase, batch, tokens) in [(Phase::Decode, 3, 3), (Phase::Prefill, 1, 32)] {
        let report = planned(&plans_of(four(), work(phase, batch, 64)), of(2, 2, 1));
        let boundary = report.boundaries[0];
        // T h b, of which each of the four cubes of a group sends its copy.
        assert_eq!(boundary.bytes, tokens * spec.hidden * 2);
        assert_eq!(boundary.sent, 4 * boundary.bytes);
        // A link between SIPs carries 512 GB/s, and there is one for each of the two pairs.
        let least = boundary.sent as f64 / 2.0 / 512.0;
        assert!(boundary.time.ns() > least, "{boundary:?}, at least {least} ns");
        // Two all-reduces of each layer among the four cubes: 2 (n − 1) / n T h b each.
        let bytes = report.stages[0].all_reduce_bytes();
        assert_eq!(report.stages[0].layers, 2);
        assert_eq!(bytes, 2 * 2 * (2 * 3 * tokens * spec.hidden * 2 / 4));
    }
}

#[test]
fn long_boundaries_have_the_bandwidth_of_their_link() {
    let of_tokens = |batch| {
        let config = plans_of(small(), work(Phase::Decode, batch, 4));
        planned(&config, of(1, 2, 1)).boundaries[0]
    };
    let (short, long) = (of_tokens(1024), of_tokens(2048));
    let more = (long.sent - short.sent) as f64 / (long.time - short.time).ns();
    // The PEs of the small machine use one connection of 128 GB/s between a cube and the IO chiplet.
    assert!(more > 0.99 * 128.0 && more < 1.01 * 128.0, "{more} GB/s");
}

#[test]
fn replicas_take_the_time_of_their_share_of_the_sequences() {
    for phase in [Phase::Decode, Phase::Prefill] {
        let replicas = planned(&plans_of(four(), work(phase, 4, 32)), of(1, 1, 4));
        let one = planned(&plans_of(four(), work(phase, 1, 32)), of(1, 1, 1));
        assert_eq!(replicas.latency(), one.latency());
        assert!((replicas.rate() / one.rate() - 4.0).abs() < 1e-9);
        assert_eq!(replicas.most_bytes(), one.most_bytes());
    }
    // An uneven share: the times of the larger one.
    let uneven = planned(&plans_of(four(), work(Phase::Decode, 5, 32)), of(2, 1, 2));
    let larger = planned(&plans_of(four(), work(Phase::Decode, 3, 32)), of(2, 1, 1));
    assert_eq!((uneven.share, uneven.latency()), (3, larger.latency()));
    assert!(uneven.notes()[0].contains("5 over 2 replicas, at most 3"), "{:?}", uneven.notes());
}

#[test]
fn micro_batches_fill_the_pipeline() {
    let with = |microbatches| {
        let config = plans_of(small(), work(Phase::Decode, 8, 32));
        let config = PlanConfig { microbatches: Some(microbatches), ..config };
        planned(&config, of(1, 2, 1))
    };
    let (one, two, four) = (with(1), with(2), with(4));
    // A single batch uses one stage at a time.
    assert_eq!(one.period(), one.latency());
    assert!(one.utilisation() < 0.5, "{}", one.utilisation());
    assert!(two.utilisation() > 1.4 * one.utilisation(), "{}", two.utilisation());
    assert!(two.latency() < one.latency() && four.latency() < two.latency());
    let slowest = four.busy(four.slowest());
    assert_eq!(four.period(), four.latency().max(slowest * 4));
    // Caches and weights are those of all sequences, however they are divided.
    let held =
        |report: &PlanReport| report.stages.iter().map(|stage| stage.memory.cache.all).sum::<u64>();
    assert_eq!((held(&one), held(&one)), (held(&two), held(&four)));
}

#[test]
fn prefill_passes_through_the_stages_chunk_by_chunk() {
    let report = planned(&plans_of(small(), work(Phase::Prefill, 1, 256)), of(1, 2, 1));
    let steps = report.stages[0].report.cut.steps();
    let stages: Vec<_> = report.stages.iter().map(|stage| stage.report.total.ps()).collect();
    let slowest = report.slowest();
    let both: u64 = stages.iter().sum();
    let boundary = report.boundaries[0].time.ps();
    let later = (steps - 1) * (stages[slowest] + steps * boundary);
    assert_eq!(report.latency().ps(), (both + later) / steps + boundary);
    // Stages work at the same time, unlike those of one token.
    assert!(report.latency().ps() < both, "{report:?}");
}

#[test]
fn a_network_takes_its_latency_and_the_time_of_the_bytes() {
    let network: Network = "alpha=5us,beta=1GB/s".parse().unwrap();
    let config = PlanConfig {
        world: World { nodes: 2, network },
        ..plans_of(small(), work(Phase::Decode, 2, 32))
    };
    assert_eq!(config.sips(), 4);
    let report = planned(&config, of(2, 2, 1));
    let boundary = report.boundaries[0];
    assert!(boundary.is_network);
    assert_eq!((boundary.bytes, boundary.sent), (2 * 256 * 2, 2 * 256 * 2));
    assert_eq!(boundary.time, Span::from_ps(5_000_000 + 1_024_000));
    // Stages 0 and 1 are on the first machine, the third on the second.
    let report = planned(&config, of(1, 3, 1));
    let networks: Vec<_> = report.boundaries.iter().map(|boundary| boundary.is_network).collect();
    assert_eq!(networks, [false, true]);
    // A second machine for replicas takes as long as the first.
    let replicas = planned(&config, of(2, 1, 2));
    let half = planned(&plans_of(small(), work(Phase::Decode, 1, 32)), of(2, 1, 1));
    assert_eq!(replicas.latency(), half.latency());
    assert!(refused(&config, of(4, 1, 1)).contains("tp=4: expected a divisor of the 2 SIPs"));
    for bad in ["alpha=5", "beta=0GB/s", "beta=-1GB/s", "gamma=1us", "", "alpha=nanus"] {
        assert!(bad.parse::<Network>().is_err(), "{bad}");
    }
}

#[test]
fn a_plan_that_cannot_be_names_its_value_and_what_is_expected() {
    let plan = |text: &str| text.parse::<PlanRequest>().and_then(|request| request.plan(4));
    let error = |text| plan(text).unwrap_err().to_string();
    assert_eq!(plan("tp=2, dp=2"), Ok(of(2, 1, 2)));
    assert_eq!(plan("tp=1"), Ok(of(1, 1, 1)));
    for (text, expected) in [
        (
            "tp=4,pp=2",
            "plan: tp=4,pp=2,dp=1: expected tp × pp × dp to be at most the 4 SIPs, found 8",
        ),
        ("pp=3", "plan: pp=3,dp=1 without tp: expected pp × dp to divide the 4 SIPs, found 3"),
        ("tp=0", "plan: tp=0: expected a whole number from 1 to 4096"),
        ("pp=x", "plan: pp=x: expected a whole number from 1 to 4096"),
        ("tp", "plan: expected auto, or keys with numbers such as tp=2,pp=4; found `tp`"),
        ("", "plan: expected auto, or keys with numbers such as tp=2,pp=4; found ``"),
        ("tp=2,tp=2", "plan: tp is given twice: expected each key at most once"),
        ("tq=2", "plan: tq: expected one of tp, pp, dp, ep; the nearest is tp"),
    ] {
        assert_eq!(error(text), expected, "{text}");
    }
    assert_eq!("auto".parse(), Ok(PlanChoice::Auto));
    let config = plans_of(four(), work(Phase::Decode, 2, 16));
    assert_eq!(
        refused(&config, of(1, 4, 1)),
        "plan: pp=4: expected at most 3 stages, the layers of the model"
    );
    assert_eq!(
        refused(&config, of(1, 1, 4)),
        "plan: dp=4: expected at most 2 replicas, one for each sequence of the batch"
    );
    let config = PlanConfig { microbatches: Some(3), ..config };
    assert_eq!(
        refused(&config, of(1, 2, 1)),
        "microbatches=3: expected 1 to 2, the sequences of a replica"
    );
}

#[test]
fn the_search_measures_the_plans_of_lowest_bounds_and_takes_the_fastest() {
    for objective in [Objective::Latency, Objective::Throughput] {
        let config = PlanConfig { objective, ..plans_of(four(), work(Phase::Decode, 4, 64)) };
        let found = search(&config, 20, &mut |_, _, _| ()).unwrap();
        // Products 1, 2 and 4 of three factors: 1, 3 and 6 of them.
        assert_eq!(found.candidates.len(), 10);
        for candidate in &found.candidates {
            let (bound, least) = (candidate.bound, found.best.score(objective));
            let measured = planned_if_possible(&config, candidate.plan);
            match (&candidate.outcome, measured) {
                // Nothing that was left out is faster, and nothing is faster than its bound.
                (_, Some(report)) => {
                    assert!(report.score(objective) >= least, "{}", candidate.plan);
                    assert!(Some(report.score(objective)) >= bound, "{}", candidate.plan);
                }
                (Outcome::Dropped(why), None) => assert!(why.contains("expected"), "{why}"),
                (Outcome::Measured(_), None) => panic!("{} was measured", candidate.plan),
            }
        }
        let why = found.why();
        assert!(why.starts_with(&found.best.plan.to_string()) && why.contains("longer"), "{why}");
        // With room for two, the two of the lowest bounds are measured, and the others say why not.
        let few = search(&config, 2, &mut |_, _, _| ()).unwrap();
        assert!(few.measured().count() <= 2);
        for candidate in &few.candidates {
            assert!(!matches!(&candidate.outcome, Outcome::Dropped(why) if why.is_empty()));
        }
    }
}

fn planned_if_possible(config: &PlanConfig, plan: Plan) -> Option<PlanReport> {
    match measure_plan(config, plan, &mut |_, _| ()) {
        Ok(report) => Some(report),
        Err(ModelError::Plan(_)) => None,
        Err(error) => panic!("{plan}: {error}"),
    }
}

#[test]
fn a_model_that_no_plan_holds_says_which_needs_least() {
    let text = "sips: {count: 2}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n\
                hbm: {bytes_per_cube: 2 MiB}\n";
    let topology = Topology::read("full", text).unwrap();
    let config = plans_of(topology.clone(), work(Phase::Decode, 64, 4096));
    let error = search(&config, 4, &mut |_, _, _| ()).unwrap_err();
    assert!(error.is_exhausted());
    assert!(error.to_string().starts_with("no plan of 2 SIPs fits: tp="), "{error}");
    // With 4 sequences of 1,000 tokens, two SIPs hold what one does not.
    let config = plans_of(topology, work(Phase::Decode, 4, 512));
    let found = search(&config, 4, &mut |_, _, _| ()).unwrap();
    let one = found.candidates.iter().find(|it| it.plan == of(1, 1, 1)).unwrap();
    assert!(matches!(&one.outcome, Outcome::Dropped(why) if why.contains("fit")), "{one:?}");
    assert!(found.best.plan.sips() == 2);
}

/// A workload and a plan on four SIPs.
fn any_plan() -> impl Strategy<Value = (Plan, Workload, ModelSpec)> {
    let plans: Vec<_> = Plan::all(4).into_iter().filter(|plan| plan.pp <= 3).collect();
    let phase = prop_oneof![Just(Phase::Decode), Just(Phase::Prefill)];
    (prop::sample::select(plans), phase, 4..9_u64, 1..80_u64, 3..6_u64).prop_map(
        |(plan, phase, batch, context, layers)| {
            (plan, work(phase, batch, context), ModelSpec { layers, ..tiny() })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(40),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(11),
        ..ProptestConfig::default()
    })]

    /// Whatever the plan: no plan is faster than its bound, stages have all layers, a token waits for all of them, and
    /// fewer sequences take no longer (within 3 %, as [`grid`](crate::grid) explains).
    #[test]
    fn any_plan_is_consistent((plan, work, spec) in any_plan()) {
        let layers = spec.layers;
        let measure = MeasureConfig { topology: four(), ..config(spec, work) };
        let whole = PlanConfig::new(measure);
        let report = planned(&whole, plan);
        prop_assert_eq!(report.stages.iter().map(|stage| stage.layers).sum::<u64>(), layers);
        prop_assert!(report.bound() <= report.latency());
        prop_assert!(report.period() >= report.latency());
        prop_assert!(report.utilisation() <= 1.0);
        let first = report.stages.iter().map(|stage| stage.report.total.ps() / stage.report.cut.steps());
        prop_assert!(report.latency().ps() >= first.max().unwrap_or(0));
        let mut fewer = whole.clone();
        fewer.measure.work.batch = work.batch - plan.dp.min(work.batch - plan.dp);
        let less = planned(&fewer, plan).latency();
        prop_assert!(less.ns() <= 1.03 * report.latency().ns(), "{less:?} {:?}", report.latency());
    }
}

#[test]
fn fewer_bytes_never_take_longer_under_auto() {
    let fastest = |context, batch| {
        let config = plans_of(four(), work(Phase::Decode, batch, context));
        search(&config, 20, &mut |_, _, _| ()).unwrap().best.latency()
    };
    for (less, more) in [((16, 2), (64, 2)), ((64, 2), (64, 4)), ((64, 4), (256, 4))] {
        let [less, more] = [less, more].map(|(context, batch)| fastest(context, batch));
        assert!(less.ns() <= 1.03 * more.ns(), "{less:?} {more:?}");
    }
}
