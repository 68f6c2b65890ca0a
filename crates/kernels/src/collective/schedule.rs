//! What an algorithm sends where and in which order, as a model of its cost needs it.
//!
//! Amounts are shares of an operation's size, which is the larger of a rank's input and output.

/// What a rank sends to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Who sends.
    pub from: usize,
    /// Who receives.
    pub to: usize,
    /// How much of the operation's size.
    pub share: f64,
}

/// Messages that are under way at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// How often it is done in turn. Each time what came the time before is passed on, so a message comes over all
    /// its wires one after the other.
    pub times: usize,
    /// How many messages a PE loads or stores each time, at most.
    pub messages: usize,
    /// What goes each time.
    pub flows: Vec<Flow>,
}

/// The stages of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// In order.
    pub stages: Vec<Stage>,
    /// Whether the next piece follows a piece at once, so that all stages are under way together once the first
    /// piece is through.
    pub pipelined: bool,
}

impl Schedule {
    /// Each stage when the one before is done.
    pub(super) fn in_turn(stages: Vec<Stage>) -> Self {
        Self { stages, pipelined: false }
    }

    /// Stages that follow each other piece by piece.
    pub(super) fn pipelined(stages: Vec<Stage>) -> Self {
        Self { stages, pipelined: true }
    }
}

impl Stage {
    /// Messages of as much each.
    pub(super) fn of(pairs: impl IntoIterator<Item = (usize, usize)>, share: f64) -> Self {
        Self::repeated(1, pairs, share)
    }

    /// Messages of as much each, so many times.
    pub(super) fn repeated(
        times: usize,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        share: f64,
    ) -> Self {
        let flows = pairs.into_iter().map(|(from, to)| Flow { from, to, share }).collect();
        Self { times, messages: 1, flows }
    }

    /// The same the other way.
    pub(super) fn reversed(&self) -> Self {
        let turn = |flow: &Flow| Flow { from: flow.to, to: flow.from, share: flow.share };
        Self { flows: self.flows.iter().map(turn).collect(), ..*self }
    }
}

/// Stages, and then the same backwards.
pub(super) fn there_and_back(mut stages: Vec<Stage>) -> Vec<Stage> {
    let back: Vec<_> = stages.iter().rev().map(Stage::reversed).collect();
    stages.extend(back);
    stages
}
