//! Time never falls as work grows: random workloads, each compared with a workload that has more of one quantity.

use cubeyard_device::topology::Topology;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::spec::Experts;
use cubeyard_model::{HfModel, MeasureConfig, ModelSpec, Phase, Workload, measure};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::long_tests::cases;
use crate::{config, measured, tiny, work};

/// Maximum relative decrease of the time. PEs that share a short sequence take longer than one PE would. Prefill of two
/// sequences of three tokens by four PEs takes up to 2.4 % longer than prefill of three sequences, each on its own PE.
/// Attention then reads only its own memory, in 166 ns instead of 300. Other decreases are below 1.2 %: rows begin within
/// a burst, or lie in other channels.
const FALL: f64 = 0.03;

/// A workload of a model.
#[derive(Clone, Debug)]
struct Case {
    spec: ModelSpec,
    work: Workload,
}

/// Quantities that grow.
#[derive(Clone, Copy, Debug)]
enum Growth {
    Batch,
    Context,
    Layers,
    Inner,
    Hidden,
    Active,
}

const GROWTHS: [Growth; 7] = [
    Growth::Batch,
    Growth::Batch,
    Growth::Context,
    Growth::Layers,
    Growth::Inner,
    Growth::Hidden,
    Growth::Active,
];

impl Case {
    /// Returns the workload with more of one quantity: one more, two more, or twice as much.
    fn grown(&self, growth: Growth, more: u64) -> Self {
        let mut this = self.clone();
        let value = match growth {
            Growth::Batch => &mut this.work.batch,
            Growth::Context => &mut this.work.context,
            Growth::Layers => &mut this.spec.layers,
            Growth::Inner => &mut this.spec.ffn,
            Growth::Hidden => &mut this.spec.hidden,
            Growth::Active => {
                if let Some(experts) = &mut this.spec.family.experts {
                    experts.active = (experts.active + 1).min(experts.count);
                }
                return this;
            }
        };
        *value += if more < 3 { more } else { *value };
        this
    }

    /// Returns the time in nanoseconds.
    fn time(&self) -> f64 {
        measured(&self.spec, self.work).total.ns()
    }
}

fn check(case: &Case, grown: &Case) {
    let [before, after] = [case, grown].map(Case::time);
    assert!(after >= before * (1.0 - FALL), "{before} ns to {after} ns: {case:?} to {grown:?}");
}

/// Measures a model of `testdata/hf` on the default machine.
fn on_default(file: &str, work: Workload) -> f64 {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hf").join(file);
    let spec = HfModel::read_bytes(file, &std::fs::read(path).unwrap()).unwrap().spec;
    let topology = Topology::embedded();
    let config = MeasureConfig { topology, ..config(spec, work) };
    measure(&config, &mut |_, _| ()).unwrap().total.ns()
}

/// Mixtral took 2.65 ms with 8 sequences and 2.22 ms with 16. The tokens of an expert came from both ends of the step, and
/// were concatenated before each product.
#[test]
fn mixtral_takes_no_less_for_16_sequences_than_for_8() {
    let of = |batch| Workload { experts: ExpertPlacement::Sip, ..work(Phase::Decode, batch, 2048) };
    let [eight, sixteen] = [8, 16].map(|batch| on_default("mixtral-8x7b.json", of(batch)));
    assert!(eight <= sixteen, "{eight} ns and {sixteen} ns");
}

/// With up to 8 tokens weights were loaded in smaller pieces, which took longer: 473 µs for 8 sequences, 468 for 9.
#[test]
fn a_ninth_sequence_does_not_save_time() {
    let of = |batch| work(Phase::Decode, batch, 2048);
    let [eight, nine] = [8, 9].map(|batch| on_default("llama-3.2-3b.json", of(batch)));
    assert!(eight <= nine, "{eight} ns and {nine} ns");
}

/// 36 tokens took 20.3 µs and 37 took 19.9. A PE had room for 9 tokens and 5 of each step. So two of four PEs stored their
/// tokens in two memories, and attention read three memories instead of two.
#[test]
fn tokens_of_a_pe_are_stored_in_one_memory() {
    let spec = ModelSpec { layers: 2, hidden: 64, heads: 4, kv_heads: 1, ..tiny() };
    let time = |context| measured(&spec, work(Phase::Prefill, 1, context)).total;
    let times: Vec<_> = (33..=40).map(time).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn experts_whose_number_does_not_divide_the_choices_take_no_longer() {
    let mut spec = ModelSpec { layers: 2, ..tiny() };
    for placement in [ExpertPlacement::Split, ExpertPlacement::Sip, ExpertPlacement::Cube] {
        for [count, active] in [[8, 2], [4, 3], [6, 2]] {
            spec.family.experts = Some(Experts { count, active });
            let case = |batch| {
                let work = Workload { experts: placement, ..work(Phase::Decode, batch, 64) };
                Case { spec: spec.clone(), work }
            };
            for pair in [5, 7, 8, 9, 12, 15, 16].windows(2) {
                check(&case(pair[0]), &case(pair[1]));
            }
        }
    }
}

fn specs() -> impl Strategy<Value = ModelSpec> {
    let experts =
        prop::option::weighted(0.4, (prop::sample::select(vec![2_u64, 4, 6, 8]), 1_u64..4));
    let sizes = (
        prop::sample::select(vec![64_u64, 96, 128, 256]),
        prop::sample::select(vec![64_u64, 128, 200, 512]),
        prop::sample::select(vec![64_u64, 100, 500]),
    );
    (1_u64..4, 1_u64..5, 1_u64..4, prop::sample::select(vec![16_u64, 32]), sizes, experts).prop_map(
        |(layers, queries, kv_heads, head_dim, (hidden, ffn, vocab), experts)| {
            let mut spec = tiny();
            spec.family.experts =
                experts.map(|(count, active)| Experts { count, active: active.min(count) });
            let heads = queries * kv_heads;
            ModelSpec { layers, hidden, ffn, heads, kv_heads, head_dim, vocab, ..spec }
        },
    )
}

fn works() -> impl Strategy<Value = Workload> {
    let places = ExpertPlacement::NAMES.map(|(_, place)| place).to_vec();
    let chunks = prop::sample::select(vec![4_u64, 16, 32, 64]);
    // Sizes are spread evenly by their logarithms.
    let size = |powers: std::ops::Range<u32>| {
        (powers, any::<u32>())
            .prop_map(|(power, more)| (1_u64 << power) + u64::from(more) % (1 << power))
    };
    (any::<bool>(), size(0..5), size(0..8), chunks, prop::sample::select(places)).prop_map(
        |(is_decode, batch, context, chunk, experts)| {
            let phase = if is_decode { Phase::Decode } else { Phase::Prefill };
            Workload { chunk, experts, ..work(phase, batch, context) }
        },
    )
}

/// The cases are the same in every run, so that a rare one does not fail by chance.
fn walk() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { failure_persistence: None, rng_seed, ..ProptestConfig::with_cases(cases(400)) }
}

proptest! {
    #![proptest_config(walk())]

    #[test]
    fn time_never_falls_as_work_grows(
        spec in specs(),
        work in works(),
        growth in prop::sample::select(GROWTHS.to_vec()),
        more in 1_u64..4,
    ) {
        let case = Case { spec, work };
        check(&case, &case.grown(growth, more));
    }
}
