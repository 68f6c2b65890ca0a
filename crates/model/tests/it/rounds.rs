//! Prefill of sequences and of tokens whose numbers are not multiples of the PEs of a group.

use cubeyard_model::report::ModelReport;
use cubeyard_model::{Phase, StepPart, Workload};

use crate::{measured, tiny, work};

/// Returns the number of operations of a part.
fn flop(report: &ModelReport, part: StepPart) -> u64 {
    report.parts.iter().find(|it| it.part == part).unwrap().demand.flop
}

fn prefill(batch: u64, context: u64) -> ModelReport {
    measured(&tiny(), work(Phase::Prefill, batch, context))
}

/// A group has 4 PEs, each with a sequence at a time. 5 sequences took as long as 8, with the operations and the bounds of 8.
#[test]
fn a_round_that_is_not_full_costs_what_its_sequences_do() {
    let [one, four, five, eight] = [1, 4, 5, 8].map(|batch| prefill(batch, 40));
    let both = (four.total + one.total).ns();
    assert!((five.total.ns() / both - 1.0).abs() < 0.01, "{:?}, of {both} ns", five.total);
    assert!(five.total < eight.total);
    let bytes = four.bandwidth_bound + one.bandwidth_bound;
    assert!(bytes.ps().abs_diff(five.bandwidth_bound.ps()) <= 20, "{bytes:?}");
    // Of the runs of a part together either memory or the engine is the bound, so it may be less than the sum.
    assert!(five.bound() <= four.bound() + one.bound() && five.bound() > four.bound());
    for part in [StepPart::Qkv, StepPart::Attention, StepPart::GateUp, StepPart::Head] {
        assert_eq!(flop(&five, part), flop(&four, part) + flop(&one, part), "{part:?}");
        assert_eq!(flop(&eight, part), 2 * flop(&four, part), "{part:?}");
    }
    // Caches of five sequences, not of eight: 3 layers, K and V, 2 heads of 32 numbers in 2 bytes.
    // The allocator rounds each tensor of a PE up to 128 bytes.
    let (cached, exact) = (five.memory.cache.all, 5 * 40 * 3 * 2 * 2 * 32 * 2);
    assert!((exact..=exact + 8 * 2 * 128).contains(&cached), "{cached} bytes, not {exact}");
    let notes = five.cut.placement_notes().join("\n");
    assert!(notes.contains("sequences: 4 at once, 1 times, then 1 at once"), "{notes}");
}

/// Tokens are padded to the 4 PEs that share a sequence. The padding takes time, but does not count as work: each weight
/// has two operations for each of 37 tokens, not 40.
#[test]
fn padding_is_noted_and_in_no_bound() {
    let report = prefill(1, 37);
    let spec = tiny();
    let weights = spec.layers * 3 * spec.hidden * spec.ffn;
    let ffn = flop(&report, StepPart::GateUp) + flop(&report, StepPart::Down);
    assert_eq!(ffn, 2 * 37 * weights);
    // Each token attends to itself and to all earlier tokens: two products with each of 8 heads of 32 numbers.
    assert_eq!(flop(&report, StepPart::Attention), spec.layers * 4 * (37 * 38 / 2) * 8 * 32);
    let notes = report.cut.placement_notes().join("\n");
    assert!(notes.contains("tokens: 37 of a sequence padded to 40, in steps of 20"), "{notes}");
    let even = prefill(1, 40).cut.placement_notes().join("\n");
    assert!(!even.contains("padded"), "{even}");
}

#[test]
fn a_chunk_below_the_pes_that_share_a_sequence_is_raised_and_noted() {
    let with_chunk = |chunk| {
        let report = measured(&tiny(), Workload { chunk, ..work(Phase::Prefill, 1, 16) });
        (report.cut.tokens(), report.cut.placement_notes().join("\n"))
    };
    let (tokens, notes) = with_chunk(3);
    assert_eq!(tokens, 4);
    assert!(notes.contains("chunk: 3 tokens raised to 4"), "{notes}");
    assert!(!with_chunk(4).1.contains("chunk"));
}
