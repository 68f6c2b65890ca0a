//! Closed forms of training: time of pipelines, bytes sent by each kind of parallelism, and memory.
//!
//! Nothing here is simulated. T is the number of tokens, h the hidden features, b the bytes of an element, and n the
//! number of ranks. `docs/sources.md` has the origins of published figures.

/// Schedule of the micro-batches of a pipeline.
///
/// ```
/// use cubeyard_model::training::Pipeline;
///
/// // 8 stages and 32 micro-batches: 7 / 32 of the ideal time is lost, and a third of it with 3 parts of each stage.
/// let plain = Pipeline { stages: 8, microbatches: 32, interleaved: 1 };
/// assert_eq!(plain.bubble(), 7.0 / 32.0);
/// assert_eq!(Pipeline { interleaved: 3, ..plain }.bubble(), 7.0 / 96.0);
/// // 39 times the 3 µs of a micro-batch in a stage.
/// assert_eq!(plain.time(1.0, 2.0), 39.0 * 3.0);
/// // Equal times of F, B and W: a third of the bubble remains.
/// assert_eq!(plain.zero_bubble_1([1.0; 3]), 7.0);
/// assert_eq!(plain.zero_bubble_2([1.0; 3]), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Number of stages, p.
    pub stages: u64,
    /// Number of micro-batches of a step, m.
    pub microbatches: u64,
    /// Number of parts of the model per stage, v; 1 without interleaving.
    pub interleaved: u64,
}

impl Pipeline {
    /// Returns the idle time of a stage as a fraction of its work, with one forward and one backward pass in turn
    /// (1F1B): (p − 1) / (v m).
    pub fn bubble(&self) -> f64 {
        (self.stages - 1) as f64 / (self.interleaved * self.microbatches) as f64
    }

    /// Returns the time of a step of 1F1B, given the times of a micro-batch in a stage, forward and backward: the work
    /// m (F + B), and the [bubble](Self::bubble).
    pub fn time(&self, forward: f64, backward: f64) -> f64 {
        self.microbatches as f64 * (forward + backward) * (1.0 + self.bubble())
    }

    /// Returns the idle time of the schedule ZB-H1: (p − 1) (F + B − W), where B and W are the backward passes to the
    /// input and to the weights.
    pub fn zero_bubble_1(&self, [forward, to_input, to_weights]: [f64; 3]) -> f64 {
        (self.stages - 1) as f64 * (forward + to_input - to_weights)
    }

    /// Returns the idle time of the schedule ZB-H2: (p − 1) (F + B − 2 W). It holds 2 p − 1 micro-batches instead of p.
    pub fn zero_bubble_2(&self, [forward, to_input, to_weights]: [f64; 3]) -> f64 {
        (self.stages - 1) as f64 * (forward + to_input - 2.0 * to_weights)
    }

    /// Returns the number of layers whose activations the first stage holds, of `layers` in all:
    /// L (1 + (p − 1) / (p v)).
    pub fn held_layers(&self, layers: u64) -> f64 {
        let more = (self.stages - 1) as f64 / (self.stages * self.interleaved) as f64;
        layers as f64 * (1.0 + more)
    }
}

/// Dimensions of the activations of a layer in training, with elements of 16 bits.
///
/// ```
/// use cubeyard_model::training::{Activations, Pipeline};
///
/// // GPT-3 175B over 8 × 8 devices with interleaving of 3, as published for sequence parallelism and selective
/// // recomputation.
/// let gpt = Activations { sequence: 2048, batch: 1, hidden: 12_288, heads: 96, ranks: 8 };
/// let held = Pipeline { stages: 8, microbatches: 8, interleaved: 3 }.held_layers(96);
/// let gib = |bytes: f64| held * bytes / f64::from(1 << 30);
/// assert_eq!(gib(gpt.layer_bytes()), 66.84375);
/// assert_eq!(gib(gpt.layer_bytes_with_sequence_parallelism()), 12.3515625);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activations {
    /// Tokens of a sequence, s.
    pub sequence: u64,
    /// Sequences of a micro-batch, b.
    pub batch: u64,
    /// Hidden features, h.
    pub hidden: u64,
    /// Heads of attention, a.
    pub heads: u64,
    /// Tensor-parallel ranks, t.
    pub ranks: u64,
}

impl Activations {
    /// Returns the bytes of a layer on a rank: s b h (10 + 24 / t + 5 a s / (h t)).
    pub fn layer_bytes(&self) -> f64 {
        let [s, h, a, t] = [self.sequence, self.hidden, self.heads, self.ranks].map(|n| n as f64);
        s * self.batch as f64 * h * (10.0 + 24.0 / t + 5.0 * a * s / (h * t))
    }

    /// Returns the bytes of a layer on a rank with sequence parallelism and selective recomputation: 34 s b h / t.
    pub fn layer_bytes_with_sequence_parallelism(&self) -> f64 {
        let elements = self.sequence * self.batch * self.hidden;
        34.0 * elements as f64 / self.ranks as f64
    }
}

/// Division of the states of a training step over data-parallel ranks.
///
/// ```
/// use cubeyard_model::training::Zero;
///
/// // 7.5 billion weights on 64 ranks, as published: 120, 31.4, 16.6 and 1.88 GB.
/// let gb = |zero: Zero| zero.bytes(7_500_000_000, 64) / 1e9;
/// let all = [Zero::None, Zero::Optimizer, Zero::Gradients, Zero::Weights].map(gb);
/// assert_eq!(all, [120.0, 31.40625, 16.640625, 1.875]);
/// assert_eq!(Zero::Weights.traffic(7_500_000_000), 22.5e9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// Every rank holds everything.
    None,
    /// Stage 1: states of the optimizer are divided.
    Optimizer,
    /// Stage 2: gradients, too.
    Gradients,
    /// Stage 3: weights, too.
    Weights,
}

impl Zero {
    /// Returns the bytes of weights, gradients and states of Adam on a rank, in mixed precision: 2, 2 and 12 for each
    /// weight, each divided by the number of ranks if it is divided.
    pub fn bytes(self, weights: u64, ranks: u64) -> f64 {
        let (whole, divided) = match self {
            Self::None => (16.0, 0.0),
            Self::Optimizer => (4.0, 12.0),
            Self::Gradients => (2.0, 14.0),
            Self::Weights => (0.0, 16.0),
        };
        weights as f64 * (whole + divided / ranks as f64)
    }

    /// Returns the number of elements that a rank sends and receives in a step, for many ranks: 2 W, or 3 W if weights
    /// are divided.
    pub fn traffic(self, weights: u64) -> f64 {
        let factor = if self == Self::Weights { 3.0 } else { 2.0 };
        factor * weights as f64
    }
}

/// Returns the bytes that a rank sends in an all-reduce of `bytes` by the ring: 2 (n − 1) / n of them. A reduce-scatter
/// and an all-gather, as in sequence parallelism, send as many together; gradients of data parallelism, too.
///
/// ```
/// use cubeyard_model::training::all_reduce_bytes;
///
/// // Two all-reduces in the forward pass of a layer: 512 tokens of 8,192 features in 2 bytes, over 8 ranks.
/// assert_eq!(2.0 * all_reduce_bytes(512 * 8192 * 2, 8), 2.0 * 1.75 * 8_388_608.0);
/// assert_eq!(all_reduce_bytes(100, 1), 0.0);
/// ```
pub fn all_reduce_bytes(bytes: u64, ranks: u64) -> f64 {
    2.0 * (ranks - 1) as f64 / ranks as f64 * bytes as f64
}

/// Returns the bytes that pass from a stage of a pipeline to the next: T h b.
///
/// ```
/// assert_eq!(cubeyard_model::training::boundary_bytes(512, 8192, 2), 8_388_608);
/// ```
pub fn boundary_bytes(tokens: u64, hidden: u64, element: u64) -> u64 {
    tokens * hidden * element
}

/// Experts divided over ranks, of which each token uses some.
///
/// ```
/// use cubeyard_model::training::ExpertTraffic;
///
/// // DeepSeek-V3: 8 of 256 experts. One token has its experts on 5.3 of 8 ranks, or on 7.3 of 32.
/// let over = |ranks| ExpertTraffic { experts: 256, active: 8, ranks }.distinct_ranks();
/// assert!((over(8) - 5.295).abs() < 5e-4 && (over(32) - 7.267).abs() < 5e-4);
/// // One copy for each expert: 8 copies of 7,168 bytes, of which 1 / 8 stay.
/// let all = ExpertTraffic { experts: 256, active: 8, ranks: 8 };
/// assert_eq!(all.bytes(1, 7168, 1), 7.0 * 7168.0);
/// assert!(all.bytes_once_per_rank(1, 7168, 1) < all.bytes(1, 7168, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertTraffic {
    /// Number of experts, E; a multiple of the ranks.
    pub experts: u64,
    /// Number of experts that each token uses, k.
    pub active: u64,
    /// Number of ranks, P.
    pub ranks: u64,
}

impl ExpertTraffic {
    /// Returns the bytes that leave a rank when its tokens are sent to their experts, one copy for each expert:
    /// T k h b (1 − 1 / P). The results come back as as many elements.
    pub fn bytes(&self, tokens: u64, hidden: u64, element: u64) -> f64 {
        boundary_bytes(tokens, hidden, element) as f64 * self.active as f64 * self.leaving()
    }

    /// Returns the bytes with one copy for each rank that has an expert of the token.
    pub fn bytes_once_per_rank(&self, tokens: u64, hidden: u64, element: u64) -> f64 {
        boundary_bytes(tokens, hidden, element) as f64 * self.distinct_ranks() * self.leaving()
    }

    /// Returns the fraction of choices that are on another rank.
    fn leaving(&self) -> f64 {
        1.0 - 1.0 / self.ranks as f64
    }

    /// Returns the expected number of ranks that have an expert of a token: P (1 − C(E − E / P, k) / C(E, k)).
    pub fn distinct_ranks(&self) -> f64 {
        let others = self.experts - self.experts / self.ranks;
        // The quotient of the binomials, factor by factor: each choice misses the rank.
        let missed = (0..self.active)
            .map(|chosen| others.saturating_sub(chosen) as f64 / (self.experts - chosen) as f64);
        self.ranks as f64 * (1.0 - missed.product::<f64>())
    }
}
