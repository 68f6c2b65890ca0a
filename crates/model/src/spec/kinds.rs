//! Kinds of layers: layers of one model that differ in their feed-forward part or in the range of their attention.

use super::{Experts, ModelSpec};

/// Range of earlier tokens to which a layer attends.
///
/// ```
/// use cubeyard_model::spec::Window;
///
/// // The token at position 10 attends to positions 7 to 10, or to those of its chunk: 8 to 10.
/// assert_eq!(Window::Sliding(4).first(10), 7);
/// assert_eq!(Window::Chunked(4).first(10), 8);
/// // Of 11 tokens, the last attends to 4 or to 3.
/// assert_eq!((Window::Sliding(4).seen(11), Window::Chunked(4).seen(11)), (4, 3));
/// assert!(!Window::Sliding(11).limits(11));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The last tokens, including the token itself.
    Sliding(u64),
    /// The earlier tokens of the same chunk; chunks begin at multiples of their length.
    Chunked(u64),
}

impl Window {
    /// Returns the maximum number of tokens to which a token attends.
    pub const fn tokens(self) -> u64 {
        match self {
            Self::Sliding(tokens) | Self::Chunked(tokens) => tokens,
        }
    }

    /// Returns the first position to which the token at a position attends.
    pub fn first(self, position: u64) -> u64 {
        match self {
            Self::Sliding(tokens) => (position + 1).saturating_sub(tokens),
            Self::Chunked(tokens) => position / tokens.max(1) * tokens,
        }
    }

    /// Returns the number of tokens to which the last of `context` tokens attends.
    pub fn seen(self, context: u64) -> u64 {
        context - context.checked_sub(1).map_or(0, |last| self.first(last))
    }

    /// Returns whether some of `context` tokens attend to fewer tokens than without a window.
    pub const fn limits(self, context: u64) -> bool {
        self.tokens() < context
    }

    /// Returns a description for reports.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Sliding(tokens) => format!("a window of {tokens} tokens"),
            Self::Chunked(tokens) => format!("chunks of {tokens} tokens"),
        }
    }
}

/// Layers of one kind, which have equal shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// Number of layers.
    pub layers: u64,
    /// Number of features of a token inside the feed-forward part, or inside each expert.
    pub ffn: u64,
    /// Experts of the feed-forward part; `None` if it is dense.
    pub experts: Option<Experts>,
    /// Number of experts that every token uses in addition, each of the size of the others.
    pub shared: u64,
    /// Range of attention; `None` if a token attends to all earlier tokens.
    pub window: Option<Window>,
}

impl LayerKind {
    /// Merges layers of equal kinds, in the order of their first layer. Kinds without layers are left out.
    pub fn merged(all: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut kinds: Vec<Self> = Vec::new();
        for kind in all.into_iter().filter(|kind| kind.layers > 0) {
            let is_same = |known: &&mut Self| Self { layers: kind.layers, ..**known } == kind;
            match kinds.iter_mut().find(is_same) {
                Some(known) => known.layers += kind.layers,
                None => kinds.push(kind),
            }
        }
        kinds
    }
}

impl ModelSpec {
    /// Returns the kinds of layers, in the order of their first layer, for `context` tokens: a window that contains all
    /// of them has no effect.
    pub fn kinds(&self, context: u64) -> Vec<LayerKind> {
        let limiting = |kind: LayerKind| {
            let window = kind.window.filter(|window| window.limits(context));
            LayerKind { window, ..kind }
        };
        let all = std::iter::once(self.first_kind()).chain(self.others.iter().copied());
        LayerKind::merged(all.map(limiting))
    }

    /// Returns the kind of the first layer.
    pub fn first_kind(&self) -> LayerKind {
        let others: u64 = self.others.iter().map(|kind| kind.layers).sum();
        LayerKind {
            layers: self.layers.saturating_sub(others),
            ffn: self.ffn,
            experts: self.family.experts,
            shared: self.family.shared_experts,
            window: self.family.window,
        }
    }

    /// Returns the model with layers of one kind only.
    #[must_use]
    pub fn of_kind(&self, kind: LayerKind) -> Self {
        let LayerKind { layers, ffn, experts, shared: shared_experts, window } = kind;
        let family = super::Family { experts, shared_experts, window, ..self.family };
        Self { layers, ffn, family, others: Vec::new(), ..self.clone() }
    }

    /// Returns the model with layers of the given kinds, of which the first is that of the first layer.
    #[must_use]
    pub fn of_kinds(&self, kinds: &[LayerKind]) -> Self {
        let Some((&first, others)) = kinds.split_first() else { return self.clone() };
        let layers = kinds.iter().map(|kind| kind.layers).sum();
        Self { layers, others: others.to_vec(), ..self.of_kind(first) }
    }
}
