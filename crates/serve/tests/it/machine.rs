//! Times of steps on a machine, compared with `cubeyard_model`.

use cubeyard_device::topology::Topology;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::report::ModelReport;
use cubeyard_model::{MeasureConfig, ModelSpec, Phase, StepPart, Workload, measure};
use cubeyard_runtime::dtype::DType;
use cubeyard_serve::{Chunk, MachineTimes, ServedModel, StepShape, StepTimes};
use cubeyard_units::Span;

/// A model of two layers on a machine of two cubes with two PEs each.
fn tiny() -> ServedModel {
    let spec = b"{name: tiny, layers: 2, hidden: 64, ffn: 128, heads: 4, kv_heads: 2, head_dim: 16, vocab: 128}";
    let machine = "sips: {count: 1}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n";
    ServedModel {
        spec: ModelSpec::read_bytes("tiny.yaml", spec).unwrap(),
        dtype: DType::F16,
        weights: DType::F16,
        kv: None,
        experts: ExpertPlacement::Split,
        topology: Topology::read("machine.yaml", machine).unwrap(),
    }
}

fn measured(model: &ServedModel, phase: Phase, batch: u64, context: u64) -> ModelReport {
    let ServedModel { dtype, weights, kv, experts, .. } = *model;
    let config = MeasureConfig {
        spec: model.spec.clone(),
        work: Workload { phase, batch, context, chunk: context, dtype, weights, experts, kv },
        topology: model.topology.clone(),
        layers: 1,
        positions: None,
        notes: Vec::new(),
    };
    measure(&config, &mut |_, _| ()).unwrap()
}

fn decodes(count: u64, context: u64) -> StepShape {
    StepShape { decodes: count, context: count * context, sampled: count, ..StepShape::default() }
}

fn chunk(tokens: u64, position: u64) -> StepShape {
    StepShape { chunks: vec![Chunk { tokens, position }], ..StepShape::default() }
}

/// Times of a step without its head.
fn without_head(report: &ModelReport) -> Span {
    let head = report.parts.iter().find(|it| it.part == StepPart::Head).unwrap();
    report.total - head.total
}

#[test]
fn a_batch_of_equal_sequences_takes_as_long_as_a_step_of_the_model() {
    let model = tiny();
    let mut times = MachineTimes::exact(&model, |_| ());
    for (count, context) in [(1, 2048), (3, 64), (5, 2048), (8, 300)] {
        let step = measured(&model, Phase::Decode, count, context).total;
        assert_eq!(times.span(&decodes(count, context)).unwrap(), step, "{count} × {context}");
    }
    // Two PEs share a prompt.
    for tokens in [2, 8, 64, 100] {
        let step = without_head(&measured(&model, Phase::Prefill, 1, tokens));
        assert_eq!(times.span(&chunk(tokens - 1, 0)).unwrap(), step, "{tokens}");
        assert_eq!(times.span(&chunk(tokens, 0)).unwrap(), step, "{tokens}");
    }
}

#[test]
fn steps_never_become_faster_with_more_work() {
    let model = tiny();
    let mut times = MachineTimes::interpolated(&model, |_| ());
    let mut span = |shape: &StepShape| times.span(shape).unwrap();
    for counts in [[1, 2], [2, 4], [4, 8], [8, 16], [16, 17]] {
        for context in [64, 1024] {
            let [few, many] = counts.map(|count| span(&decodes(count, context)));
            assert!(few <= many, "{counts:?} × {context}: {few}, {many}");
        }
    }
    for lengths in [[1, 64], [64, 65], [65, 512], [512, 4096]] {
        let [short, long] = lengths.map(|length| span(&decodes(3, length)));
        assert!(short <= long, "{lengths:?}: {short}, {long}");
        let [short, long] = lengths.map(|length| span(&chunk(8, length)));
        assert!(short <= long, "{lengths:?}: {short}, {long}");
    }
    let alone = span(&decodes(4, 256));
    let mixed = StepShape { chunks: vec![Chunk { tokens: 16, position: 0 }], ..decodes(4, 256) };
    assert!(alone <= span(&mixed) && span(&chunk(16, 0)) <= span(&mixed));
}

#[test]
fn interpolated_times_are_compared_with_simulated_ones() {
    let model = tiny();
    let mut times = MachineTimes::interpolated(&model, |_| ());
    let long = [chunk(700, 0), chunk(1300, 900)];
    let shapes = [decodes(5, 700), decodes(4, 1024), chunk(40, 300)].into_iter().chain(long);
    let checks = times.check(&shapes.collect::<Vec<_>>()).unwrap();
    assert!(checks.iter().all(|it| it.error().abs() < 0.25), "{checks:?}");
    assert_eq!(checks[1].interpolated, checks[1].simulated, "it is a point of the grid");
    let again = times.span(&decodes(5, 700)).unwrap();
    assert_eq!(again, checks[0].interpolated, "a check changes nothing");
}

/// Batches with several launches of attention have gaps between them, whose length is taken from one decode step.
#[test]
fn the_time_of_a_step_depends_on_its_shape_alone() {
    let mut model = tiny();
    let slow = cubeyard_device::topology::Topology::read(
        "machine.yaml",
        "sips: {count: 1}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\nhost: {launch_ns: 500}\n",
    );
    model.topology = slow.unwrap();
    let mixed = StepShape { chunks: vec![Chunk { tokens: 16, position: 8 }; 2], ..decodes(3, 90) };
    let shapes = [mixed, decodes(1, 40), chunk(33, 12), decodes(7, 500), chunk(600, 64)];
    let mut forth = MachineTimes::interpolated(&model, |_| ());
    let mut back = MachineTimes::interpolated(&model, |_| ());
    let first = shapes.each_ref().map(|shape| forth.span(shape).unwrap());
    let mut second: Vec<_> = shapes.iter().rev().map(|shape| back.span(shape).unwrap()).collect();
    second.reverse();
    assert_eq!(first.to_vec(), second);
}

/// 2 layers × K and V × 2 heads × 16 features × 2 bytes are 256 bytes a token.
#[test]
fn the_cache_has_the_memory_that_the_weights_leave() {
    let model = tiny();
    let mut times = MachineTimes::interpolated(&model, |_| ());
    let size = times.cache_size(16, 64, 0.5).unwrap();
    assert_eq!(size.block_bytes.get(), 16 * 256);
    let left = size.capacity.get() / 2 - size.weights.get() - size.activations.get();
    assert_eq!(size.blocks, left * 4 / size.block_bytes.get());
    let error = times.cache_size(16, 64, 1e-9).unwrap_err();
    assert!(error.is_exhausted() && error.to_string().contains("weights of tiny"), "{error}");
    let error = times.cache_size(16, 64, 1.5).unwrap_err().to_string();
    assert_eq!(error, "memory-share=1.5: expected a number above 0 and up to 1");
}
