//! Times and memory of a step, computed by hand and compared with each other.

use std::rc::Rc;

use cubeyard_device::topology::Topology;
use cubeyard_model::report::ModelReport;
use cubeyard_model::spec::Experts;
use cubeyard_model::{
    Cut, Driver, HfModel, MeasureConfig, ModelError, ModelSpec, Phase, StepPart, Tensors, Workload,
    measure,
};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Span;
use cubeyard_tl::launch::Launcher;

use crate::{SMALL, config, small, tiny, work};

fn measured(config: &MeasureConfig) -> ModelReport {
    measure(config, &mut |_, _| ()).unwrap()
}

/// Returns the relative difference of two times, relative to the second.
fn apart(one: &ModelReport, other: &ModelReport) -> f64 {
    let [one, other] = [one, other].map(|report| report.total.ps() as f64);
    (one - other).abs() / other
}

/// Returns the time of a layer as one launch, and the sum of the times of its parts, each launched alone.
fn together_and_apart(spec: &ModelSpec, work: Workload) -> [Span; 2] {
    let topology = Topology::embedded();
    let sips: Vec<_> = topology.sips().collect();
    let cut = Rc::new(Cut::new(spec, work, &topology, sips.len() as u64).unwrap());
    let context = Context::new(ContextConfig { topology, ..ContextConfig::default() });
    let tensors = Tensors::new(&context, &cut, &sips, None).unwrap();
    let launcher = Launcher::new(&context);
    let mut driver = Driver::new(&launcher, &cut, &tensors).unwrap();
    let mut time = |part| {
        driver.order(part, 0, 0).unwrap();
        let ran = driver.finish().unwrap();
        let of_sips = &ran[0].launches;
        let start = of_sips.iter().map(|launch| launch.started).min().unwrap();
        let ends = of_sips.iter().map(|launch| launch.started + launch.max());
        ends.max().unwrap() - start
    };
    let layer = time(StepPart::Layer);
    let parts = StepPart::layer(&cut).into_iter().map(time).sum();
    [layer, parts]
}

/// The launch takes at most 1.3 times the sum of its parts. It takes less, because weights are loaded before their part
/// begins.
#[test]
fn a_layer_of_8b_takes_less_than_its_kernels_one_by_one() {
    let spec = ModelSpec { layers: 1, ..ModelSpec::named("llama-8b").unwrap() };
    let work = Workload { chunk: 512, ..work(Phase::Decode, 32, 2048) };
    let [layer, parts] = together_and_apart(&spec, work).map(Span::ns);
    assert!(layer < 0.95 * parts, "{layer} ns, of {parts} ns");
}

#[test]
fn all_layers_take_as_long_as_one_taken_as_often() {
    for work in [work(Phase::Decode, 3, 40), work(Phase::Prefill, 2, 32)] {
        let one = measured(&config(tiny(), work));
        let all = measured(&MeasureConfig { layers: 3, ..config(tiny(), work) });
        assert!(apart(&one, &all) < 0.01, "{:?} {:?}", one.total, all.total);
    }
}

#[test]
fn attention_at_some_positions_stands_for_all() {
    let config = config(tiny(), work(Phase::Prefill, 1, 512));
    let all = measured(&MeasureConfig { positions: Some(u64::MAX), ..config.clone() });
    assert_eq!(all.positions, (16, 16));
    let some = measured(&MeasureConfig { positions: Some(5), ..config });
    assert_eq!(some.positions, (5, 16));
    assert!(apart(&some, &all) < 0.01, "{:?} {:?}", some.total, all.total);
}

#[test]
fn parts_and_launches_add_up_and_none_is_faster_than_its_bound() {
    for work in [
        work(Phase::Decode, 1, 100),
        work(Phase::Decode, 6, 64),
        work(Phase::Prefill, 1, 100),
        work(Phase::Prefill, 6, 16),
    ] {
        let report = measured(&config(tiny(), work));
        let parts: u64 = report.parts.iter().map(|part| part.total.ps()).sum();
        assert_eq!(parts + report.launching.ps(), report.total.ps());
        for part in &report.parts {
            assert!(part.share().is_none_or(|share| share <= 1.0), "{part:?}");
            assert!(part.count > 0 && part.total.ps() > 0, "{part:?}");
        }
        assert!(report.bandwidth_share() < 1.0);
    }
}

#[test]
fn a_step_reads_all_weights_once_and_computes_twice_as_much_for_each_token() {
    let (spec, batch) = (ModelSpec::named("llama-70b").unwrap(), 5);
    let work = Workload { chunk: 512, ..work(Phase::Decode, batch, 1) };
    let cut = Cut::new(&spec, work, &Topology::embedded(), 2).unwrap();
    let layer = [StepPart::Qkv, StepPart::Output, StepPart::GateUp, StepPart::Down]
        .map(|part| cut.demand(part, 0));
    let head = cut.demand(StepPart::Head, 0);
    let bytes: u64 = layer.iter().map(|demand| demand.bytes).sum();
    let flop: u64 = layer.iter().map(|demand| demand.flop).sum();
    // All but the embedding and the norms, whose weights are merged into the next matrix.
    let norms = spec.hidden * (2 * spec.layers + 1);
    let weights = spec.parameters() - spec.vocab * spec.hidden - norms;
    assert_eq!(spec.layers * bytes + head.bytes, 2 * weights);
    assert_eq!(spec.layers * flop + head.flop, 2 * weights * batch);
    // A key and a value of 128 numbers, in two bytes each, for each of 8 heads; two products with each of 64.
    let attention = cut.demand(StepPart::Attention, 0);
    assert_eq!((attention.bytes, attention.flop), (batch * 8 * 128 * 4, batch * 64 * 128 * 4));
}

#[test]
fn weights_stream_at_the_rate_of_the_matrix_engine() {
    // One SIP of one cube with two PEs, and a layer whose weights are much longer than what else moves.
    let topology = "sips: {count: 1}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0, r0c1]}\n";
    let topology = Topology::read("one", topology).unwrap();
    let text = b"{name: wide, layers: 1, hidden: 2048, ffn: 4096, heads: 2, kv_heads: 1, head_dim: 64, vocab: 64}";
    let spec = ModelSpec::read_bytes("wide", text).unwrap();
    let work = work(Phase::Decode, 1, 16);
    let report = measured(&MeasureConfig { spec, topology, ..config(tiny(), work) });
    let of = |part| report.parts.iter().find(|it| it.part == part).unwrap().total.ns();
    // A tile of 64 × 32 weights is 4096 bytes: 16 ns at 256 GB/s, but 16.384 in the engine.
    let tiles = |rows: f64, columns: f64| rows / 64.0 * columns / 32.0 * 16.384;
    for (part, least) in
        [(StepPart::GateUp, tiles(2048.0, 4096.0)), (StepPart::Down, tiles(4096.0, 1024.0))]
    {
        let took = of(part);
        assert!(took >= least && took < 1.08 * least, "{part:?}: {took} ns, at least {least} ns");
    }
}

#[test]
fn what_a_model_takes_of_each_pe_is_what_was_allocated() {
    let report = measured(&config(tiny(), work(Phase::Decode, 4, 64)));
    let (spec, memory) = (tiny(), report.memory);
    // Both SIPs have the embedding, and norms are merged into the next matrix.
    let weights =
        spec.parameters() + spec.vocab * spec.hidden - spec.hidden * (2 * spec.layers + 1);
    assert_eq!(memory.weights.all, 2 * weights);
    assert_eq!(memory.cache.all, 2 * 2 * 3 * 4 * 64 * 2 * 32);
    assert_eq!(memory.weights.most, memory.weights.all / 8, "each PE has as much");
    assert_eq!(memory.capacity, 24 << 30);
    assert_eq!(report.cut.held_bytes(), memory.weights.most + memory.cache.most);
}

#[test]
fn a_model_that_does_not_fit_needs_more_sips() {
    // 405B in bf16 is 0.81 TB, and a SIP has 0.82 TB.
    let text = include_bytes!("../../testdata/hf/llama-3.1-405b.json");
    let spec = HfModel::read_bytes("405b.json", text).unwrap().spec;
    let of = |batch, context| {
        let (spec, topology) = (spec.clone(), Topology::embedded());
        MeasureConfig { spec, topology, ..config(tiny(), work(Phase::Decode, batch, context)) }
    };
    assert_eq!(of(1, 2048).least_sips(), Some(1));
    // A token takes 2 × 126 × 8 × 128 × 2 bytes in the cache: 2.16 TB in all.
    assert_eq!(of(512, 8192).least_sips(), Some(4));
    assert_eq!(of(1 << 20, 1 << 20).least_sips(), None);
}

#[test]
fn what_does_not_fit_says_so_with_the_report_of_the_allocator() {
    let topology = Topology::read("full", &format!("{SMALL}hbm: {{bytes_per_cube: 2 MiB}}\n"));
    let config = MeasureConfig {
        topology: topology.unwrap(),
        ..config(tiny(), work(Phase::Decode, 64, 512))
    };
    let error = measure(&config, &mut |_, _| ()).unwrap_err();
    assert!(error.is_exhausted());
    let text = error.to_string();
    for words in ["the caches of K and V of tiny do not fit", "sip0.cube0.pe0", "largest"] {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
}

#[test]
fn what_the_machine_cannot_divide_is_named() {
    let spec = ModelSpec { heads: 9, ..tiny() };
    let error = Cut::new(&spec, work(Phase::Decode, 1, 1), &small(), 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "heads=9: expected a multiple of 2, as many for each head of K and V"
    );
    let error = Cut::new(&tiny(), work(Phase::Decode, 0, 1), &small(), 2).unwrap_err();
    assert!(matches!(error, ModelError::Nothing("batch")));
}

/// Mixtral 8x7B by hand: one token of a batch of 1 uses 2 experts, 32 tokens all 8.
#[test]
fn a_step_of_mixtral_reads_the_experts_that_its_tokens_use() {
    let text = include_bytes!("../../testdata/hf/mixtral-8x7b.json");
    let spec = HfModel::read_bytes("mixtral.json", text).unwrap().spec;
    let machine = Topology::embedded();
    for (batch, used) in [(1, 2), (2, 4), (32, 8)] {
        let cut = Cut::new(&spec, work(Phase::Decode, batch, 2048), &machine, 2).unwrap();
        let [gate_up, down] = [StepPart::GateUp, StepPart::Down].map(|part| cut.demand(part, 0));
        // An expert has three matrices of 4096 × 14336 weights of two bytes.
        assert_eq!(gate_up.bytes + down.bytes, used * 3 * 4096 * 14336 * 2);
        // Two operations for each weight of two experts for each token, however many experts are read.
        assert_eq!(gate_up.flop + down.flop, 2 * 2 * 3 * 4096 * 14336 * batch);
    }
}

/// Weights of 8 bits by hand, on one cube of two PEs: half of the bytes are read and held. The time stays the same,
/// because the matrix unit takes 16.384 ns for a tile of 64 × 32 at the rate of bf16, while memory needs 8.
#[test]
fn weights_of_8_bits_halve_the_memory_but_not_the_time_of_the_matrix_engine() {
    let topology = "sips: {count: 1}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0, r0c1]}\n";
    let topology = Topology::read("one", topology).unwrap();
    let text = b"{name: wide, layers: 1, hidden: 2048, ffn: 4096, heads: 2, kv_heads: 1, head_dim: 64, vocab: 64}";
    let spec = ModelSpec::read_bytes("wide", text).unwrap();
    let measured_with = |weights| {
        let work = Workload { weights, dtype: DType::Bf16, ..work(Phase::Decode, 1, 16) };
        let (spec, topology) = (spec.clone(), topology.clone());
        measured(&MeasureConfig { spec, topology, ..config(tiny(), work) })
    };
    let [wide, narrow] = [DType::Bf16, DType::Fp8E4m3].map(measured_with);
    let of = |report: &ModelReport, part| {
        let found = report.parts.iter().find(|it| it.part == part).unwrap();
        (found.total.ns(), found.demand.bytes)
    };
    for part in [StepPart::GateUp, StepPart::Down] {
        let [(_, wide), (took, narrow)] = [&wide, &narrow].map(|report| of(report, part));
        let least = narrow as f64 / 2.0 / 2048.0 * 16.384;
        assert_eq!(wide, 2 * narrow);
        assert!(took >= least && took < 1.08 * least, "{part:?}: {took} ns, at least {least} ns");
    }
    // Q, K, V and output: 2048 × 384; gate, up and down: 3 × 2048 × 4096. Scales of 4 bytes for 256 columns of Q, K and V,
    // 8192 of gate and up, and 2048 each of output and down. Table and head stay as they are.
    let (weights, tables) = (2048 * 384 + 3 * 2048 * 4096, 2 * 64 * 2048);
    assert_eq!(wide.memory.weights.all, 2 * weights + 2 * tables);
    assert_eq!(narrow.memory.weights.all, weights + 4 * (256 + 8192 + 2 * 2048) + 2 * tables);
}

#[test]
fn the_host_takes_its_time_for_each_launch() {
    let without = measured(&config(tiny(), work(Phase::Decode, 1, 64)));
    let topology = Topology::read("host", &format!("{SMALL}host: {{launch_ns: 1000}}\n")).unwrap();
    let with = measured(&MeasureConfig { topology, ..config(tiny(), work(Phase::Decode, 1, 64)) });
    // The first launch begins the step; all others come a microsecond later.
    let later = (with.total - without.total).ns();
    assert!((later / 1000.0 - (with.launches - 1) as f64).abs() < 0.01, "{later} ns");
    assert_eq!(with.launches, without.launches);
}

/// gpt-oss 120B by hand: 36 layers of 128 experts of three matrices of 2880 × 2880 weights, of 4 bits and a byte for 32.
#[test]
fn experts_in_mxfp4_have_17_bytes_for_32_weights() {
    let text = include_bytes!("../../testdata/hf/gpt-oss-120b.json");
    let spec = HfModel::read_bytes("120b.json", text).unwrap().spec;
    let work = Workload { chunk: 512, ..work(Phase::Prefill, 1, 512) };
    let cut = Cut::new(&spec, work, &Topology::embedded(), 2).unwrap();
    let bytes = |part: StepPart| cut.demand(part, 0).bytes;
    let experts = 36 * (bytes(StepPart::GateUp) + bytes(StepPart::Down));
    assert_eq!(experts, 60_914_073_600);
    // Together with all other weights in 16 bits, the published size of 60.8 GiB.
    let others = 2 * (spec.parameters() - 36 * 128 * 3 * 2880 * 2880);
    assert!(((experts + others) as f64 / f64::from(1 << 30) - 60.8).abs() < 0.2);
}

/// The weights of four experts, by hand: 3 × 256 × 512 each, in three layers. Each panel has two products with half of
/// the columns, which take up to 0.7 % longer where memory is not the limit.
#[test]
fn experts_in_mxfp4_take_less_memory_and_no_more_time() {
    let experts = |has_mxfp4_experts| {
        let mut spec = tiny();
        spec.family.experts = Some(Experts { count: 4, active: 2 });
        spec.family.has_mxfp4_experts = has_mxfp4_experts;
        spec
    };
    let weights = 3 * 4 * 3 * 256 * 512;
    for work in
        [work(Phase::Decode, 1, 16), work(Phase::Decode, 40, 16), work(Phase::Prefill, 2, 48)]
    {
        let [wide, narrow] = [false, true].map(|narrow| measured(&config(experts(narrow), work)));
        let freed = wide.memory.weights.all - narrow.memory.weights.all;
        assert_eq!(freed, 2 * weights - weights / 2 - weights / 32, "{work:?}");
        assert!(narrow.total.ns() <= 1.01 * wide.total.ns(), "{:?}: {work:?}", narrow.total);
        let flop = |report: &ModelReport| report.parts.iter().map(|it| it.demand.flop).sum::<u64>();
        assert_eq!(flop(&wide), flop(&narrow));
        assert_eq!(narrow.cut.held_bytes() * 8, {
            let biases = 3 * 4 * 256 * 2 * 8;
            narrow.memory.weights.all + narrow.memory.cache.all - biases
        });
    }
}
