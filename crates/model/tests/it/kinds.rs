//! Layers of several kinds: windows of attention, and dense layers beside experts.

use cubeyard_model::report::ModelReport;
use cubeyard_model::spec::{Experts, LayerKind, Window};
use cubeyard_model::{ModelSpec, Phase, StepPart, Workload};
use cubeyard_sim::Span;

use crate::{measured, tiny, work};

/// Returns a model with six layers, of which `count` are limited by a window.
fn windowed(window: Window, count: u64) -> ModelSpec {
    let spec = ModelSpec { layers: 6, ..tiny() };
    let full = LayerKind { layers: 6 - count, ..spec.first_kind() };
    spec.of_kinds(&[LayerKind { layers: count, window: Some(window), ..full }, full])
}

fn of(report: &ModelReport, part: StepPart) -> (Span, u64, u64) {
    let part = report.parts.iter().find(|it| it.part == part).unwrap();
    (part.total, part.demand.bytes, part.demand.flop)
}

fn works() -> [Workload; 5] {
    [
        work(Phase::Decode, 1, 300),
        work(Phase::Decode, 3, 1100),
        work(Phase::Decode, 9, 64),
        work(Phase::Prefill, 1, 300),
        work(Phase::Prefill, 5, 96),
    ]
}

#[test]
fn a_window_of_the_whole_context_changes_nothing() {
    for work in works() {
        let plain = measured(&ModelSpec { layers: 6, ..tiny() }, work);
        for window in [Window::Sliding, Window::Chunked] {
            for tokens in [work.context, work.context + 1, 1 << 30] {
                let limited = measured(&windowed(window(tokens), 5), work);
                assert_eq!(limited.total, plain.total, "{work:?}");
                assert_eq!((limited.parts, limited.memory), (plain.parts.clone(), plain.memory));
            }
        }
    }
}

#[test]
fn a_smaller_window_takes_no_longer_and_needs_no_more_memory() {
    for work in works() {
        let tokens = [8, 16, 24, 48, 64, 96, 128, 256, 300, 512, 1024, 2048];
        let reports = tokens.map(|tokens| measured(&windowed(Window::Sliding(tokens), 5), work));
        for (pair, tokens) in reports.windows(2).zip(tokens.windows(2)) {
            let [small, large] = [&pair[0], &pair[1]];
            // Rows that begin within a burst take 0.3 % longer.
            assert!(small.total.ns() <= 1.003 * large.total.ns(), "{tokens:?} {work:?}");
            assert!(small.memory.total.most <= large.memory.total.most, "{tokens:?} {work:?}");
            assert!(small.memory.cache.all <= large.memory.cache.all, "{tokens:?} {work:?}");
        }
        let [first, last] = [&reports[0], &reports[11]];
        assert!(of(first, StepPart::Attention).0 < of(last, StepPart::Attention).0, "{work:?}");
    }
}

/// In decode, a layer with a window of 16 does what it does with a context of 16.
#[test]
fn a_window_in_decode_is_a_context_of_as_many_tokens() {
    let short = measured(&ModelSpec { layers: 6, ..tiny() }, work(Phase::Decode, 3, 16));
    for context in [17, 100, 1000] {
        let limited = measured(&windowed(Window::Sliding(16), 6), work(Phase::Decode, 3, context));
        assert_eq!((limited.total, limited.memory), (short.total, short.memory), "{context}");
    }
}

/// Keys and values of two heads of 32 numbers in 2 bytes, for each token that a layer sees.
#[test]
fn layers_read_and_keep_the_tokens_of_their_window() {
    let bytes = |tokens: u64| tokens * 2 * 2 * 32 * 2;
    let report = measured(&windowed(Window::Sliding(16), 5), work(Phase::Decode, 4, 64));
    assert_eq!(of(&report, StepPart::Attention).1, 4 * bytes(5 * 16 + 64));
    assert_eq!(report.memory.cache.all, 4 * bytes(5 * 16 + 64));
    // Chunks begin at multiples of 24: of 64 tokens the last sees 16, but its cache has room for 24.
    let report = measured(&windowed(Window::Chunked(24), 5), work(Phase::Decode, 4, 64));
    assert_eq!(of(&report, StepPart::Attention).1, 4 * bytes(5 * 16 + 64));
    assert_eq!(report.memory.cache.all, 4 * bytes(5 * 24 + 64));
    let notes = report.cut.placement_notes().join("\n");
    assert!(
        notes.contains("5 of 6 layers: a feed-forward part of 512 features, chunks of 24 tokens")
    );
}

/// The operations of a prefill: a product of a query and a key and one of a weight and a value, for each pair of tokens.
#[test]
fn a_token_of_a_prefill_attends_to_its_window() {
    let flop = |window| {
        let report = measured(&windowed(window, 6), work(Phase::Prefill, 1, 96));
        of(&report, StepPart::Attention).2 / (6 * 4 * 8 * 32)
    };
    let pairs = |seen: fn(u64) -> u64| (0..96).map(seen).sum::<u64>();
    assert_eq!(flop(Window::Sliding(20)), pairs(|token| (token + 1).min(20)));
    assert_eq!(flop(Window::Chunked(40)), pairs(|token| token % 40 + 1));
    assert_eq!(flop(Window::Sliding(96)), pairs(|token| token + 1));
}

/// Attention of chunks repeats, so two chunks take twice as long as one.
#[test]
fn attention_of_chunks_repeats() {
    let attention = |context| {
        let report = measured(&windowed(Window::Chunked(64), 6), work(Phase::Prefill, 1, context));
        of(&report, StepPart::Attention).0.ns()
    };
    let [one, four] = [64, 256].map(attention);
    assert!((four / (4.0 * one) - 1.0).abs() < 0.02, "{one} ns and {four} ns");
}

/// A model of two kinds takes the time of its layers: here 2 of one kind and 4 of the other.
#[test]
fn times_of_kinds_add_up() {
    let dense = ModelSpec { layers: 6, ..tiny() };
    let mut experts = ModelSpec { ffn: 128, ..dense.clone() };
    experts.family.experts = Some(Experts { count: 4, active: 2 });
    experts.family.shared_experts = 1;
    let of_kind = |spec: &ModelSpec, layers| LayerKind { layers, ..spec.first_kind() };
    let both = dense.of_kinds(&[of_kind(&dense, 2), of_kind(&experts, 4)]);
    let parameters = |spec: &ModelSpec| spec.layer_parameters();
    let tables = 2 * both.vocab * both.hidden + both.hidden;
    assert_eq!(both.parameters(), 2 * parameters(&dense) + 4 * parameters(&experts) + tables);
    for work in [work(Phase::Decode, 2, 64), work(Phase::Prefill, 2, 64)] {
        let [all, mixed, other] = [&dense, &both, &experts].map(|spec| measured(spec, work));
        for part in [StepPart::Qkv, StepPart::GateUp, StepPart::Down] {
            let [all, mixed, other] = [&all, &mixed, &other].map(|report| of(report, part).0.ns());
            let sum = (2.0 * all + 4.0 * other) / 6.0;
            assert!((mixed / sum - 1.0).abs() < 0.01, "{part:?}: {mixed} ns, of {sum} ns");
        }
        let router = mixed.parts.iter().find(|it| it.part == StepPart::Router).unwrap();
        assert_eq!(router.count, 4 * mixed.cut.steps());
        let parts: Vec<_> = mixed.parts.iter().map(|it| it.part).collect();
        assert!(parts.is_sorted(), "{parts:?}");
        let sum: u64 = mixed.parts.iter().map(|part| part.total.ps()).sum();
        assert_eq!(sum + mixed.launching.ps(), mixed.total.ps());
    }
}

/// A shared expert of all tokens is read once, and has two operations for each weight and token.
#[test]
fn a_shared_expert_is_one_more_for_every_token() {
    let with = |shared| {
        let mut spec = tiny();
        spec.family.experts = Some(Experts { count: 8, active: 2 });
        spec.family.shared_experts = shared;
        measured(&spec, work(Phase::Decode, 5, 16))
    };
    let [without, with] = [0, 1].map(with);
    let weights = 3 * 256 * 512 * 3;
    let sum = |report: &ModelReport| {
        let [gate_up, down] = [StepPart::GateUp, StepPart::Down].map(|part| of(report, part));
        [gate_up.1 + down.1, gate_up.2 + down.2]
    };
    let [before, after] = [&without, &with].map(sum);
    assert_eq!(after, [before[0] + 2 * weights, before[1] + 2 * 5 * weights]);
    assert_eq!(with.memory.weights.all, without.memory.weights.all + 2 * weights);
    assert!(with.total > without.total);
}
