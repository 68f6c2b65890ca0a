//! Parts of a step of a model.

use super::cut::{Cut, Phase};

/// Part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPart {
    /// Lookup of the features of each token.
    Embedding,
    /// Sums of squares of a norm.
    Norm,
    /// Projection to Q, K and V.
    Qkv,
    /// Storing of K and V in the cache; in decode, attention does this.
    Append,
    /// Attention, with rotary positions.
    Attention,
    /// Projection of the attention output.
    Output,
    /// Sum over the cubes' partial results.
    AllReduce,
    /// Sums of squares of the norm of a result.
    PostNorm,
    /// Addition of a normalised result to the tokens.
    Add,
    /// Weights of the experts for each token.
    Router,
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
            Self::PostNorm => "post-norm",
            Self::Add => "scale, add",
            Self::Router => "router",
            Self::GateUp => "gate, up",
            Self::Down => "down",
            Self::Head => "head",
            Self::Layer => "layer",
        }
    }

    /// Returns the parts of a layer, in order.
    pub fn layer(cut: &Cut) -> Vec<Self> {
        let sum = [Self::AllReduce, Self::PostNorm, Self::Add];
        let ffn = [Self::Norm, Self::Router, Self::GateUp, Self::Down];
        let mut parts = vec![Self::Norm, Self::Qkv, Self::Append, Self::Attention, Self::Output];
        parts.extend(sum.into_iter().chain(ffn).chain(sum));
        parts.retain(|part| part.is_in(cut));
        parts
    }

    /// Returns whether a distributed model has this part.
    fn is_in(self, cut: &Cut) -> bool {
        match self {
            Self::Append => cut.work.phase == Phase::Prefill,
            Self::PostNorm | Self::Add => cut.spec.family.has_post_norms,
            Self::Router => cut.routing.is_some(),
            _ => true,
        }
    }
}
