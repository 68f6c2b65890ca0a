//! Dimensions of models, by name or from a file.

mod kinds;

pub use kinds::{LayerKind, Window};

use cubeyard_yaml::{Document, InputError, nearest, text};

use super::error::ModelError;

/// Dimensions of a model: a decoder of layers with gated feed-forward parts, as in Llama and its descendants. Layers
/// are identical, or of a few [kinds](LayerKind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSpec {
    /// Name of the model.
    pub name: String,
    /// Number of layers of all kinds.
    pub layers: u64,
    /// Number of features of a token between layers.
    pub hidden: u64,
    /// Number of features of a token inside the feed-forward part, or inside each expert, of the first layer.
    pub ffn: u64,
    /// Number of heads of Q.
    pub heads: u64,
    /// Number of heads of K and V.
    pub kv_heads: u64,
    /// Head dimension: number of features of a head.
    pub head_dim: u64,
    /// Number of words in the vocabulary.
    pub vocab: u64,
    /// Differences of the architecture from Llama, with the experts and the window of the first layer.
    pub family: Family,
    /// Layers that differ from the first, which are included in `layers`; empty if all layers are identical.
    pub others: Vec<LayerKind>,
}

/// Properties in which model families differ from each other; the default is Llama.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a feature of its own")]
pub struct Family {
    /// Whether the head shares the weights of the embedding.
    pub is_tied: bool,
    /// Whether Q, K and V have biases, as in Qwen 2.
    pub has_qkv_bias: bool,
    /// Whether each head of Q and K is normalised, as in Qwen 3.
    pub has_qk_norm: bool,
    /// Whether the results of attention and of the feed-forward part are normalised, as in Gemma 2.
    pub has_post_norms: bool,
    /// Activation function of the gate.
    pub activation: Activation,
    /// Experts of the feed-forward part; `None` if it is dense.
    pub experts: Option<Experts>,
    /// Number of experts that every token uses in addition to its own, each of the size of the others.
    pub shared_experts: u64,
    /// Range of attention; `None` if a token attends to all earlier tokens.
    pub window: Option<Window>,
    /// Whether attention output, router and experts have biases, and each head of Q has a sink, as in gpt-oss. They
    /// count as parameters, but are not simulated.
    pub has_other_biases: bool,
    /// Whether the weights of experts are stored in MXFP4: 4 bits each, and 8 bits for the common exponent of 32.
    pub has_mxfp4_experts: bool,
}

/// Activation function of the gate of a feed-forward part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `SiLU`: x · sigmoid(x).
    #[default]
    Silu,
    /// GELU in its tanh approximation.
    Gelu,
}

/// Experts of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts of a layer.
    pub count: u64,
    /// Number of experts that each token uses.
    pub active: u64,
}

impl Experts {
    /// Returns the expected number of distinct experts that `tokens` tokens use, if each token chooses its experts
    /// independently and all choices are equally likely: E (1 − (1 − k/E)ᵀ).
    ///
    /// ```
    /// use cubeyard_model::spec::Experts;
    ///
    /// let experts = Experts { count: 8, active: 2 };
    /// assert_eq!(experts.expected(1), 2.0);
    /// assert_eq!(experts.expected(2), 3.5);
    /// ```
    pub fn expected(self, tokens: u64) -> f64 {
        let missed = 1.0 - self.active as f64 / self.count as f64;
        self.count as f64 * (1.0 - missed.powf(tokens as f64))
    }

    /// Returns the [expected](Self::expected) number of distinct experts, rounded to a possible number.
    pub fn used(self, tokens: u64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to count")]
        let used = self.expected(tokens).round() as u64;
        used.clamp(self.active, self.count)
    }
}

/// Known models: layers, hidden, ffn, heads, heads of K and V, head dimension, vocabulary.
const KNOWN: [(&str, [u64; 7]); 2] = [
    ("llama-8b", [32, 4096, 14336, 32, 8, 128, 128_256]),
    ("llama-70b", [80, 8192, 28672, 64, 8, 128, 128_256]),
];

/// Defaults of keys that a file omits.
const DEFAULT: &str = "{name: llama-8b, layers: 32, hidden: 4096, ffn: 14336, heads: 32, kv_heads: 8, \
                       head_dim: 128, vocab: 128256}";
/// Upper limit of all numbers in a file.
const MOST: u32 = 1 << 20;

impl ModelSpec {
    /// Returns the model with this name; the error lists all names and the nearest.
    ///
    /// ```
    /// use cubeyard_model::ModelSpec;
    ///
    /// assert_eq!(ModelSpec::named("llama-70b")?.parameters(), 70_553_706_496);
    /// let error = ModelSpec::named("llama-7b").unwrap_err();
    /// let text = "there is no model `llama-7b`: expected one of llama-8b, llama-70b; the nearest is `llama-8b`";
    /// assert_eq!(error.to_string(), text);
    /// # Ok::<(), cubeyard_model::ModelError>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, ModelError> {
        let names = || KNOWN.into_iter().map(|(name, _)| name);
        let found = KNOWN.into_iter().find(|(known, _)| *known == name);
        let Some((_, numbers)) = found else {
            let known: Vec<_> = names().collect();
            let nearest = nearest(name, names()).unwrap_or_default().to_owned();
            let (name, known) = (name.to_owned(), known.join(", "));
            return Err(ModelError::NoSuchModel { name, known, nearest });
        };
        let [layers, hidden, ffn, heads, kv_heads, head_dim, vocab] = numbers;
        let name = name.to_owned();
        let family = Family::default();
        let others = Vec::new();
        Ok(Self { name, layers, hidden, ffn, heads, kv_heads, head_dim, vocab, family, others })
    }

    /// Returns the names of all known models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.into_iter().map(|(name, _)| name)
    }

    /// Reads a model from a file; omitted keys have the values of `llama-8b`.
    ///
    /// ```
    /// use cubeyard_model::ModelSpec;
    ///
    /// let spec = ModelSpec::read_bytes("tiny.yaml", b"name: tiny\nlayers: 2")?;
    /// assert_eq!((spec.name.as_str(), spec.layers, spec.hidden), ("tiny", 2, 4096));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Self, InputError> {
        let document = Document::overlaid("llama-8b", DEFAULT, name, text(name, bytes)?)?;
        let mut map = document.root().map()?;
        let mut number = |key| map.field(key).whole(1, MOST).map(u64::from);
        let spec = Self {
            name: String::new(),
            layers: number("layers")?,
            hidden: number("hidden")?,
            ffn: number("ffn")?,
            heads: number("heads")?,
            kv_heads: number("kv_heads")?,
            head_dim: number("head_dim")?,
            vocab: number("vocab")?,
            family: Family::default(),
            others: Vec::new(),
        };
        let name = map.field("name").text("a name")?.to_owned();
        map.finish()?;
        Ok(Self { name, ..spec })
    }

    /// Returns the number of weights of the first layer: attention, feed-forward part and norms.
    pub fn layer_parameters(&self) -> u64 {
        let norms = if self.family.has_post_norms { 4 } else { 2 };
        self.attention_parameters() + self.ffn_parameters() + norms * self.hidden
    }

    /// Returns the number of weights of attention: Q, K, V and output, biases and sinks, and head norms.
    fn attention_parameters(&self) -> u64 {
        let Self { hidden, heads, kv_heads, head_dim, family, .. } = *self;
        let biases = u64::from(family.has_qkv_bias) * (heads + 2 * kv_heads) * head_dim;
        let biases = biases + u64::from(family.has_other_biases) * (hidden + heads);
        let norms = u64::from(family.has_qk_norm) * 2 * head_dim;
        hidden * head_dim * (2 * heads + 2 * kv_heads) + biases + norms
    }

    /// Returns the number of weights of the feed-forward part: gate, up and down of each expert, their biases, and the
    /// router.
    fn ffn_parameters(&self) -> u64 {
        let Self { hidden, ffn, family, .. } = *self;
        let has_biases = u64::from(family.has_other_biases);
        let (dense, bias) = (3 * hidden * ffn, has_biases * (2 * ffn + hidden));
        let Some(Experts { count, .. }) = family.experts else { return dense };
        let router = count * (hidden + has_biases);
        count * (dense + bias) + family.shared_experts * dense + router
    }

    /// Returns the total number of weights: layers, the embedding, the last norm, and the head, unless it is tied.
    pub fn parameters(&self) -> u64 {
        let tables = if self.family.is_tied { 1 } else { 2 };
        let of_kind = |kind: LayerKind| kind.layers * self.of_kind(kind).layer_parameters();
        let layers: u64 = self.kinds(u64::MAX).into_iter().map(of_kind).sum();
        layers + tables * self.vocab * self.hidden + self.hidden
    }

    /// Returns the number of values that the token after `context` others adds to the caches of K and V: in all layers
    /// but those whose window is full.
    ///
    /// ```
    /// use cubeyard_model::ModelSpec;
    ///
    /// assert_eq!(2 * ModelSpec::named("llama-70b")?.cached_values(0), 327_680);
    /// # Ok::<(), cubeyard_model::ModelError>(())
    /// ```
    pub fn cached_values(&self, context: u64) -> u64 {
        let kinds = self.kinds(u64::MAX).into_iter();
        let grows = |kind: &LayerKind| kind.window.is_none_or(|window| window.tokens() > context);
        let layers: u64 = kinds.filter(grows).map(|kind| kind.layers).sum();
        layers * 2 * self.kv_heads * self.head_dim
    }

    /// Returns the number of heads of Q that share one head of K and V.
    pub fn group(&self) -> u64 {
        self.heads / self.kv_heads.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_says_nothing_is_the_first_model() {
        let first = ModelSpec::named("llama-8b").unwrap();
        assert_eq!(ModelSpec::read_bytes("empty", b"{}").unwrap(), first);
        let error = ModelSpec::read_bytes("bad", b"layer: 3").unwrap_err();
        assert!(error.to_string().contains("layers"), "{error}");
    }

    #[test]
    fn models_have_as_many_parameters_as_their_makers_say() {
        // 8.03 and 70.6 billion, as published.
        let billions = |name| ModelSpec::named(name).unwrap().parameters() as f64 / 1e9;
        assert!((billions("llama-8b") - 8.03).abs() < 0.005);
        assert!((billions("llama-70b") - 70.6).abs() < 0.05);
    }
}
