//! Parts of a step of a model.

use super::cut::Phase;

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPart {
    /// Lookup of the features of each token.
    Embedding,
    /// Sums of squares of a norm.
    Norm,
    /// Projection to Q, K and V.
    Qkv,
    /// Storing of K and V in the cache; in decode this is done by attention.
    Append,
    /// Attention, with rotary positions.
    Attention,
    /// Projection of the attention output.
    Output,
    /// Sum over the cubes' partial results.
    AllReduce,
    /// Gate and up projections, and their product.
    GateUp,
    /// Down projection of the feed-forward part.
    Down,
    /// Computation of the logits.
    Head,
    /// All parts of a layer in one launch.
    Layer,
}

impl StepPart {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Norm => "norm",
            Self::Qkv => "qkv",
            Self::Append => "rope, append",
            Self::Attention => "attention",
            Self::Output => "output",
            Self::AllReduce => "all-reduce",
            Self::GateUp => "gate, up",
            Self::Down => "down",
            Self::Head => "head",
            Self::Layer => "layer",
        }
    }

    /// Returns the parts of a layer, in order.
    pub fn layer(phase: Phase) -> Vec<Self> {
        let mut parts = vec![Self::Norm, Self::Qkv, Self::Append, Self::Attention, Self::Output];
        parts.extend([Self::AllReduce, Self::Norm, Self::GateUp, Self::Down, Self::AllReduce]);
        parts.retain(|part| phase == Phase::Prefill || *part != Self::Append);
        parts
    }
}
