//! Distribution of a model and the tokens of a step over SIPs, cubes and PEs.
//!
//! Every weight is stored once, and each PE reads only the weights that it holds. A head of K and V belongs to several
//! neighbouring cubes, its *group*. The input of a product is shared by the PEs of a cube, each of which holds a part:
//!
//! | product | split over cubes | split over the PEs of a cube | result |
//! |---|---|---|---|
//! | Q, K and V | columns of a head of K | columns of these | a part per PE, passed on within the group |
//! | output | rows: some features of the heads of the group | columns | a sum per cube, added up by an all-reduce |
//! | gate and up | columns | columns of these | a part per PE |
//! | down | rows: the cube's columns of up | columns | a sum per cube, added up by an all-reduce |
//! | head | columns | columns of these | a part per PE |
//!
//! The PEs of a group share the cache of their head. Each holds some sequences, or a part of a sequence if there are
//! fewer sequences than PEs.
//!
//! Dimensions that are not divisible over the machine are padded; see [`Heads`] for heads.
//!
//! Layers of several kinds have a distribution each. They differ in the cache and in the feed-forward part, but have the
//! same tokens, and the same PEs for heads and sequences.
//!
//! The cache of a layer with a window is a ring: in decode of as many tokens as the window has, in prefill of these and
//! those of a step, so that the step is stored before its first token attends.

mod ends;
mod experts;
mod heads;
mod packed;

pub use ends::Ends;
pub use experts::{ExpertPlacement, Hit, Routing};
pub use heads::Heads;
pub(crate) use packed::BLOCK;

use std::collections::BTreeMap;

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_yaml::NoSuchName;
use serde::Serialize;

use super::error::ModelError;
use super::spec::{LayerKind, ModelSpec, Window};

/// Phase of inference to which a step belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Processing of prompts: many tokens of each sequence at once.
    Prefill,
    /// Generation: one new token of each sequence.
    Decode,
}

/// Workload of a model: phase, sequences, tokens and element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Phase of inference: prefill or decode.
    pub phase: Phase,
    /// Number of sequences, at least 1.
    pub batch: u64,
    /// Tokens per sequence; in decode, including the new one.
    pub context: u64,
    /// Maximum number of tokens in a step of prefill, over all sequences; at least one per sequence.
    pub chunk: u64,
    /// Element type of activations, and of the embedding and the head.
    pub dtype: DType,
    /// Element type of the weights of layers: `dtype`, or an 8-bit type with a scale for each column.
    pub weights: DType,
    /// Placement of experts, if the model has any.
    pub experts: ExpertPlacement,
    /// Element type of the caches of K and V: `dtype` (default), or an 8-bit float, to which Q, K and V are converted.
    pub kv: Option<DType>,
}

impl Workload {
    /// Returns the element type of the caches of K and V.
    pub fn kv_type(&self) -> DType {
        self.kv.unwrap_or(self.dtype)
    }
}

/// Distribution of a model over a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Model that is distributed. In the distributions of [`others`](Self::others), the model with their layers only.
    pub spec: ModelSpec,
    /// Number of layers of this kind.
    pub layers: u64,
    /// Range of attention; `None` if no token attends to fewer tokens than without a window.
    pub window: Option<Window>,
    /// Distributions of the layers of other kinds; empty if all layers are identical.
    pub others: Vec<Cut>,
    /// Workload of the model.
    pub work: Workload,
    /// Number of SIPs that hold the model.
    pub sips: u64,
    /// Number of cubes per SIP.
    pub cubes: u64,
    /// Number of PEs per cube.
    pub pes: u64,
    /// Distribution of heads over groups of cubes.
    pub heads: Heads,
    /// Number of cubes in a group.
    pub group_cubes: u64,
    /// Experts that the tokens of a step use; `None` if the model is dense.
    pub routing: Option<Routing>,
    /// Embedding and head, of which a stage of a pipeline may lack either.
    pub ends: Ends,
    /// Number of sequences per step.
    pub sequences: u64,
    /// New tokens of each sequence per step.
    pub each: u64,
    /// Number of PEs of a group that share a sequence.
    pub parts: u64,
    /// Number of sequences whose cache, or a part of it, a PE holds.
    pub held: u64,
    /// Number of tokens of a sequence for which a PE has room; in prefill, a multiple of the PE's tokens per step.
    pub room: u64,
    /// Maximum number of tokens of a sequence to which a PE attends in decode.
    pub stretch: u64,
    /// Distribution of the remaining sequences. In prefill each PE of a group has one sequence at a time, and the last
    /// round may have fewer sequences.
    pub rest: Option<Box<Cut>>,
}

/// Element types of quantised weights.
pub const QUANTISED: [DType; 3] = [DType::Fp8E4m3, DType::Fp8E5m2, DType::I8];

/// Element types of caches other than the type of activations.
pub const CACHED: [DType; 2] = [DType::Fp8E4m3, DType::Fp8E5m2];

/// Parses an element type of weights: the name of a type, or the short names `fp8` and `int8`.
///
/// ```
/// use cubeyard_model::cut::weight_type;
/// use cubeyard_runtime::dtype::DType;
///
/// assert_eq!(weight_type("fp8"), Ok(DType::Fp8E4m3));
/// assert_eq!(weight_type("bf16"), Ok(DType::Bf16));
/// assert!(weight_type("int4").is_err());
/// ```
pub fn weight_type(name: &str) -> Result<DType, NoSuchName> {
    match name {
        "fp8" => Ok(DType::Fp8E4m3),
        "int8" => Ok(DType::I8),
        name => name.parse(),
    }
}

/// Maximum number of rows of activations in the TCM at once.
const ROWS: u64 = 128;
/// Approximate number of bytes of weights per load.
const LOAD: u64 = 128 << 10;

impl Cut {
    /// Distributes a model over the first `sips` SIPs of a machine.
    pub fn new(
        spec: &ModelSpec,
        work: Workload,
        topology: &Topology,
        sips: u64,
    ) -> Result<Self, ModelError> {
        let (cubes, pes) = (topology.cubes().count() as u64, topology.pes().count() as u64);
        for (what, value) in
            [("batch", work.batch), ("context", work.context), ("chunk", work.chunk)]
        {
            if value == 0 {
                return Err(ModelError::Nothing(what));
            }
        }
        check(spec, work, &topology.spec().pe.core.gemm.rates)?;
        if spec.family.has_mxfp4_experts {
            even("hidden_size", spec.hidden, 2 * pes, "since two weights of 4 bits share a byte")?;
        }
        let kinds = spec.kinds(work.context);
        let of_kind = |spec, kind| Self::of_kind(spec, kind, work, [sips, cubes, pes]);
        let mut this = of_kind(spec.clone(), kinds[0]);
        let others = kinds[1..].iter().map(|&kind| of_kind(spec.of_kind(kind), kind));
        this.others = others.collect();
        let left = work.batch - this.sequences * this.rounds();
        if left > 0 {
            let rest = Self::new(spec, Workload { batch: left, ..work }, topology, sips)?;
            this.rest = Some(Box::new(rest));
        }
        Ok(this)
    }

    /// Distributes the layers of a kind.
    fn of_kind(
        spec: ModelSpec,
        kind: LayerKind,
        work: Workload,
        [sips, cubes, pes]: [u64; 3],
    ) -> Self {
        let heads = Heads::new(&spec, sips, cubes);
        let mut this = Self {
            spec,
            layers: kind.layers,
            window: kind.window,
            others: Vec::new(),
            work,
            sips,
            cubes,
            pes,
            heads,
            group_cubes: heads.group_cubes,
            routing: None,
            ends: Ends::WHOLE,
            sequences: 1,
            each: 1,
            parts: 1,
            held: 1,
            room: 1,
            stretch: 1,
            rest: None,
        };
        this.deal();
        this.route();
        this
    }

    /// Returns the distributions of all kinds of layers, in the order of their first layer.
    pub fn kinds(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Distributes sequences and tokens over the PEs of a group.
    fn deal(&mut self) {
        let (Workload { phase, batch, context, chunk, .. }, units) = (self.work, self.units());
        match phase {
            Phase::Decode => {
                (self.sequences, self.each) = (batch, 1);
                self.held = batch.div_ceil(units);
                let seen = self.seen();
                self.stretch = seen.div_ceil((units / batch).clamp(1, seen));
                // A PE without tokens would have no weights to normalise.
                self.parts = seen.div_ceil(self.stretch);
                self.room = self.stretch.max(self.cached().div_ceil(self.parts));
            }
            Phase::Prefill => {
                self.parts = (units / batch).clamp(1, context);
                self.sequences = batch.min(units);
                self.held = batch / self.sequences;
                let most = (chunk / self.sequences / self.parts).max(1) * self.parts;
                // Steps have equal length, a multiple of the number of parts.
                let steps = context.div_ceil(most);
                self.each = context.div_ceil(steps).next_multiple_of(self.parts);
                self.room = self.cached().div_ceil(self.parts);
                // A PE's tokens of a step are stored in one memory, never across the boundary of two.
                if self.parts > 1 {
                    self.room = self.room.next_multiple_of(self.each / self.parts);
                }
                self.stretch = self.room;
            }
        }
    }

    /// Returns the number of tokens of a sequence to which its last token attends.
    pub fn seen(&self) -> u64 {
        self.window.map_or(self.work.context, |window| window.seen(self.work.context))
    }

    /// Returns the number of tokens of a sequence for which all PEs together need room.
    pub fn cached(&self) -> u64 {
        let ring = |window: Window| match self.work.phase {
            Phase::Decode => window.tokens(),
            Phase::Prefill => window.tokens() + self.each - 1,
        };
        self.window.map_or(self.work.context, |window| ring(window).min(self.work.context))
    }

    /// Returns the first position to which the token at a position attends.
    pub fn first_seen(&self, position: u64) -> u64 {
        self.window.map_or(0, |window| window.first(position))
    }

    /// Returns the number of tokens to which a PE attends in decode, of the given part of a sequence.
    pub fn part_tokens(&self, part: u64) -> u64 {
        self.stretch.min(self.seen().saturating_sub(part * self.stretch))
    }

    /// Distributes the tokens of a step over experts.
    fn route(&mut self) {
        let (tokens, machine) = (self.tokens(), [self.sips, self.cubes]);
        let shared = self.spec.family.shared_experts;
        let routing =
            |experts| Routing::new(experts, self.work.experts, tokens, machine).with_shared(shared);
        self.routing = self.spec.family.experts.map(routing);
    }

    /// Returns the number of experts of a layer; 1 if it is dense.
    pub fn experts(&self) -> u64 {
        self.routing.map_or(1, |routing| routing.experts.count)
    }

    /// Returns the number of matrices that a PE holds per layer: one for each expert of its place, and for each expert
    /// that all tokens share.
    pub fn matrices(&self) -> u64 {
        self.routing.map_or(1, |routing| routing.local + routing.shared)
    }

    /// Returns the place of experts to which a cube belongs, counted over all SIPs.
    pub fn place_of(&self, cube: u64) -> u64 {
        self.routing.map_or(0, |routing| cube * routing.places / (self.sips * self.cubes))
    }

    /// Returns the number of PEs that share an expert, or a dense layer.
    pub fn sharers(&self) -> u64 {
        self.all() / self.routing.map_or(1, |routing| routing.places)
    }

    /// Returns the number of rows of inner features: each token counts once for each of its experts at this place.
    pub fn inner_rows(&self) -> u64 {
        self.routing.map_or_else(|| self.tokens(), |routing| routing.rows())
    }

    /// Returns the number of tokens for which each PE of a cube computes the weights of experts.
    pub fn routed(&self) -> u64 {
        self.tokens().div_ceil(self.pes)
    }

    /// Returns the total number of PEs.
    pub fn all(&self) -> u64 {
        self.sips * self.cubes * self.pes
    }

    /// Returns the number of PEs that share a head of K and V.
    pub fn units(&self) -> u64 {
        self.group_cubes * self.pes
    }

    /// Returns whether the weights of layers have fewer bits than activations.
    pub fn is_quantised(&self) -> bool {
        self.work.weights != self.work.dtype
    }

    /// Returns the number of tokens per step.
    pub fn tokens(&self) -> u64 {
        self.sequences * self.each
    }

    /// Returns the number of rows of the attention output that a PE computes: sequences, tokens of one sequence, or one
    /// row for a part of a sequence.
    pub fn unit_rows(&self) -> u64 {
        match self.work.phase {
            Phase::Decode => self.held,
            Phase::Prefill => self.each / self.parts,
        }
    }

    /// Returns whether the attention of a sequence is combined from the results of several PEs.
    pub fn is_joined(&self) -> bool {
        self.work.phase == Phase::Decode && self.parts > 1
    }

    /// Returns the number of features of each token that a PE holds.
    pub fn slice(&self) -> u64 {
        self.spec.hidden.div_ceil(self.pes)
    }

    /// Returns the number of features of a token between layers, with padding.
    pub fn hidden(&self) -> u64 {
        self.slice() * self.pes
    }

    /// Returns the number of columns of Q, K and V that a PE holds.
    pub fn qkv(&self) -> u64 {
        (self.heads.projected() * self.spec.head_dim).div_ceil(self.units())
    }

    /// Returns the number of features of the attention output that a cube multiplies.
    pub fn attended(&self) -> u64 {
        self.heads.share * self.heads.piece
    }

    /// Returns the number of inner features of the feed-forward part that a PE computes.
    pub fn inner(&self) -> u64 {
        self.spec.ffn.div_ceil(self.sharers())
    }

    /// Returns the number of words of the vocabulary that a PE holds.
    pub fn words(&self) -> u64 {
        self.spec.vocab.div_ceil(self.all())
    }

    /// Returns the number of words in the vocabulary, with padding.
    pub fn vocab(&self) -> u64 {
        self.words() * self.all()
    }

    /// Returns the number of rows of activations in the TCM at once; fewer if rows are long.
    pub fn rows(&self) -> u64 {
        self.tokens().min(self.most_rows())
    }

    /// Returns the maximum number of rows of activations in the TCM at once.
    pub fn most_rows(&self) -> u64 {
        let fit = (2 << 20) / (self.hidden() * self.work.dtype.size()).max(1);
        fit.clamp(1, ROWS)
    }

    /// Returns the number of columns of a panel of weights with `rows` rows. With many tokens per expert or in all,
    /// panels are wide: results are stored row by row, and short rows use few memory channels.
    pub fn panel(&self, rows: u64) -> u64 {
        self.panel_of(rows, self.work.weights.size())
    }

    fn panel_of(&self, rows: u64, element: u64) -> u64 {
        let columns = LOAD / (rows * element).max(1);
        let least = if self.shared_tokens() > 8 { 256 } else { 32 };
        (columns / 32 * 32).max(least).min(self.slice())
    }

    /// Returns the number of tokens that share weights of the feed-forward part: all tokens, or one expert's tokens.
    fn shared_tokens(&self) -> u64 {
        let of_expert = |it: Routing| {
            let choices = it.experts.active + it.shared;
            (it.tokens * choices).div_ceil(it.used + it.shared)
        };
        self.routing.map_or_else(|| self.tokens(), of_expert)
    }

    /// Returns the number of passes over all positions, each with some of the sequences, excluding remaining ones.
    pub fn rounds(&self) -> u64 {
        self.work.batch / self.sequences
    }

    /// Returns the number of steps of all sequences: rounds times positions; remaining sequences are excluded.
    pub fn steps(&self) -> u64 {
        self.rounds() * self.positions()
    }

    /// Returns the number of tokens of a step that begins at a position, without padding.
    pub fn real_tokens(&self, position: u64) -> u64 {
        let left = match self.work.phase {
            Phase::Decode => 1,
            Phase::Prefill => self.work.context.saturating_sub(position),
        };
        self.sequences * self.each.min(left)
    }

    /// Returns the number of positions in a sequence at which steps begin.
    pub fn positions(&self) -> u64 {
        match self.work.phase {
            Phase::Decode => 1,
            Phase::Prefill => self.work.context.div_ceil(self.each),
        }
    }

    /// Returns a label that distinguishes the kernels of this distribution.
    pub fn label(&self) -> String {
        let Workload { batch, context, dtype, weights, .. } = self.work;
        let tokens = self.tokens();
        let weights = match (self.is_packed(), self.is_quantised()) {
            (true, _) => format!(" x {weights} and MXFP4"),
            (false, true) => format!(" x {weights}"),
            _ => String::new(),
        };
        let kv = self.work.kv.map_or_else(String::new, |kv| format!(" kv {kv}"));
        let window = self.window.map_or_else(String::new, |it| format!(" in {}", it.text()));
        let name = &self.spec.name;
        format!("{name} {dtype}{weights} {tokens} of {batch}x{context}{kv}{window}")
    }
}

fn check(
    spec: &ModelSpec,
    work: Workload,
    rates: &BTreeMap<String, u64>,
) -> Result<(), ModelError> {
    let Workload { dtype, weights, .. } = work;
    let can_compute = |dtype: &DType| dtype.is_float() && rates.contains_key(dtype.name());
    if !can_compute(&dtype) {
        let expected =
            DType::ALL.iter().filter(|dtype| can_compute(dtype)).map(|dtype| dtype.name());
        let expected = expected.collect::<Vec<_>>().join(", ");
        return Err(ModelError::Activations { dtype, expected });
    }
    let is_narrow = matches!(dtype, DType::F16 | DType::Bf16) && QUANTISED.contains(&weights);
    if weights != dtype && !is_narrow {
        return Err(ModelError::Weights { weights, dtype });
    }
    let is_narrow = matches!(dtype, DType::F16 | DType::Bf16) && CACHED.contains(&work.kv_type());
    if work.kv_type() != dtype && !(is_narrow && rates.contains_key(work.kv_type().name())) {
        return Err(ModelError::Caches { kv: work.kv_type(), dtype });
    }
    even("heads", spec.heads, spec.kv_heads, "as many for each head of K and V")?;
    even("head_dim", spec.head_dim, 2, "which turn together")
}

fn even(what: &'static str, value: u64, of: u64, why: &'static str) -> Result<(), ModelError> {
    if of > 0 && value > 0 && value.is_multiple_of(of) {
        return Ok(());
    }
    Err(ModelError::Uneven { what, value, of, why })
}
