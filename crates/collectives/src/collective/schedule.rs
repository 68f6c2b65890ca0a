//! Messages of an algorithm and their order, for the cost model.
//!
//! Amounts are fractions of an operation's size, which is the larger of a rank's input and output.

/// Data that one rank sends to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The sending rank.
    pub from: usize,
    /// The receiving rank.
    pub to: usize,
    /// Fraction of the operation's size.
    pub share: f64,
}

/// Messages that are under way at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Number of repetitions. Each repetition passes on the messages of the previous one, so a message crosses all
    /// its wires in sequence.
    pub times: usize,
    /// Maximum number of messages that a PE loads or stores per repetition.
    pub messages: usize,
    /// Messages of one repetition.
    pub flows: Vec<Flow>,
}

/// The stages of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Stages in the order of their start.
    pub stages: Vec<Stage>,
    /// Whether pieces are pipelined: all stages are under way together once the first piece has passed.
    pub pipelined: bool,
}

impl Schedule {
    /// Makes a schedule in which each stage begins when the previous one is done.
    pub(super) fn in_turn(stages: Vec<Stage>) -> Self {
        Self { stages, pipelined: false }
    }

    /// Makes a schedule whose stages are pipelined by pieces.
    pub(super) fn pipelined(stages: Vec<Stage>) -> Self {
        Self { stages, pipelined: true }
    }
}

impl Stage {
    /// Makes a stage of messages of equal size.
    pub(super) fn of(pairs: impl IntoIterator<Item = (usize, usize)>, share: f64) -> Self {
        Self::repeated(1, pairs, share)
    }

    /// Makes a stage of messages of equal size, repeated a number of times.
    pub(super) fn repeated(
        times: usize,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        share: f64,
    ) -> Self {
        let flows = pairs.into_iter().map(|(from, to)| Flow { from, to, share }).collect();
        Self { times, messages: 1, flows }
    }

    /// Returns the stage with all messages reversed.
    pub(super) fn reversed(&self) -> Self {
        let turn = |flow: &Flow| Flow { from: flow.to, to: flow.from, share: flow.share };
        Self { flows: self.flows.iter().map(turn).collect(), ..*self }
    }
}

/// Appends the same stages reversed, in reverse order.
pub(super) fn there_and_back(mut stages: Vec<Stage>) -> Vec<Stage> {
    let back: Vec<_> = stages.iter().rev().map(Stage::reversed).collect();
    stages.extend(back);
    stages
}
