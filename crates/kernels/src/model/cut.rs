//! How a model and the tokens of a step are cut over SIPs, cubes and PEs.
//!
//! Every weight is held once, and each PE reads only its own. A head of K and V belongs to some neighbouring
//! cubes, its *group*. What comes into a product is shared by the PEs of a cube, each of which holds a part:
//!
//! | product | cubes have | PEs of a cube have | comes out |
//! |---|---|---|---|
//! | Q, K and V | columns of a head of K | columns of these | a part for each PE, passed on within the group |
//! | output | rows: some heads of the group | columns | a sum for each cube, added up by an all-reduce |
//! | gate and up | columns | columns of these | a part for each PE |
//! | down | rows: the cube's columns of up | columns | a sum for each cube, added up by an all-reduce |
//! | head | columns | columns of these | a part for each PE |
//!
//! The PEs of a group share the cache of their head: each has some sequences, or, where there are fewer
//! sequences than PEs, a part of one.

use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;

use super::error::ModelError;
use super::spec::ModelSpec;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads prompts: many tokens of each sequence at once.
    Prefill,
    /// Goes on: one new token of each sequence.
    Decode,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What is done.
    pub phase: Phase,
    /// Sequences.
    pub batch: u64,
    /// Tokens of each: in decode, with the new one.
    pub context: u64,
    /// Tokens that a step of prefill has at most, of all sequences together, or one of each if that is more.
    pub chunk: u64,
    /// What weights, cache and activations are of.
    pub dtype: DType,
}

/// A model on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The model.
    pub spec: ModelSpec,
    /// What is done.
    pub work: Work,
    /// SIPs, cubes of each, PEs of each cube.
    pub sips: u64,
    /// Cubes of a SIP.
    pub cubes: u64,
    /// PEs of a cube.
    pub pes: u64,
    /// Cubes that share a head of K and V.
    pub group_cubes: u64,
    /// Sequences of a step.
    pub sequences: u64,
    /// New tokens of each sequence in a step.
    pub each: u64,
    /// PEs of a group that share a sequence.
    pub parts: u64,
    /// Sequences whose cache a PE has, or has a part of.
    pub held: u64,
    /// Tokens of a sequence that a PE has room for.
    pub room: u64,
}

/// Rows of activations that are in the TCM at once.
const ROWS: u64 = 128;
/// Bytes of weights that a load brings, about.
const LOAD: u64 = 128 << 10;

impl Cut {
    /// Cuts a model over the first so many SIPs of a machine.
    pub fn new(
        spec: &ModelSpec,
        work: Work,
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
        let kv = spec.kv_heads;
        even("kv_heads", kv, sips, "as many for each SIP")?;
        even("cubes", cubes, kv / sips, "as many for each head of K and V of a SIP")?;
        let mut this = Self {
            spec: spec.clone(),
            work,
            sips,
            cubes,
            pes,
            group_cubes: cubes * sips / kv,
            sequences: 1,
            each: 1,
            parts: 1,
            held: 1,
            room: 1,
        };
        this.check()?;
        this.deal();
        Ok(this)
    }

    fn check(&self) -> Result<(), ModelError> {
        let Self { spec, .. } = self;
        even("heads", spec.heads, spec.kv_heads, "as many for each head of K and V")?;
        even("heads", spec.group(), self.group_cubes, "of each head of K, some for each cube")?;
        even("hidden", spec.hidden, self.pes, "a part for each PE of a cube")?;
        even("head_dim", spec.head_dim, 2, "which turn together")?;
        let columns = (spec.group() + 2) * spec.head_dim;
        even("columns of a head's Q, K and V", columns, self.units(), "some for each PE")?;
        even("ffn", spec.ffn, self.all(), "some for each PE")?;
        even("vocab", spec.vocab, self.all(), "some for each PE")
    }

    /// Deals sequences and tokens to the PEs of a group.
    fn deal(&mut self) {
        let (Work { phase, batch, context, chunk, .. }, units) = (self.work, self.units());
        self.parts = (units / batch).clamp(1, context);
        self.held = batch.div_ceil(units);
        self.room = context.div_ceil(self.parts);
        match phase {
            Phase::Decode => (self.sequences, self.each) = (batch, 1),
            Phase::Prefill => {
                self.sequences = batch.min(units);
                let most = (chunk / self.sequences / self.parts).max(1) * self.parts;
                // Steps of one length, a multiple of the parts.
                let steps = context.div_ceil(most);
                self.each = context.div_ceil(steps).next_multiple_of(self.parts);
            }
        }
    }

    /// PEs.
    pub fn all(&self) -> u64 {
        self.sips * self.cubes * self.pes
    }

    /// PEs that share a head of K and V.
    pub fn units(&self) -> u64 {
        self.group_cubes * self.pes
    }

    /// Tokens of a step.
    pub fn tokens(&self) -> u64 {
        self.sequences * self.each
    }

    /// Rows of the output of attention that a PE computes: sequences, or tokens of one, or a part of one.
    pub fn unit_rows(&self) -> u64 {
        match self.work.phase {
            Phase::Decode => self.held,
            Phase::Prefill => self.each / self.parts,
        }
    }

    /// Whether what PEs have of a sequence must be joined to be its attention.
    pub fn is_joined(&self) -> bool {
        self.work.phase == Phase::Decode && self.parts > 1
    }

    /// Features that a PE has of each token.
    pub fn slice(&self) -> u64 {
        self.spec.hidden / self.pes
    }

    /// Columns of Q, K and V of a PE.
    pub fn qkv(&self) -> u64 {
        (self.spec.group() + 2) * self.spec.head_dim / self.units()
    }

    /// Features of attention's output that a cube multiplies.
    pub fn attended(&self) -> u64 {
        self.spec.group() / self.group_cubes * self.spec.head_dim
    }

    /// Features of the feed-forward part of a PE.
    pub fn inner(&self) -> u64 {
        self.spec.ffn / self.all()
    }

    /// Tokens of the vocabulary of a PE.
    pub fn words(&self) -> u64 {
        self.spec.vocab / self.all()
    }

    /// Rows of activations in the TCM at once: fewer where they are long.
    pub fn rows(&self) -> u64 {
        let fit = (2 << 20) / (self.spec.hidden * self.work.dtype.size()).max(1);
        self.tokens().min(fit.clamp(1, ROWS))
    }

    /// Columns of a panel of weights that has so many rows. With many tokens it is wide, since what comes out
    /// is stored row by row, and short rows fall on few channels of the memory.
    pub fn panel(&self, rows: u64) -> u64 {
        let columns = LOAD / (rows * self.work.dtype.size()).max(1);
        let least = if self.tokens() > 8 { 256 } else { 32 };
        (columns / 32 * 32).max(least).min(self.slice())
    }

    /// The steps of all sequences: sequences at once, times positions.
    pub fn steps(&self) -> u64 {
        match self.work.phase {
            Phase::Decode => 1,
            Phase::Prefill => self.work.batch.div_ceil(self.sequences) * self.positions(),
        }
    }

    /// At how many positions of their sequences steps begin.
    pub fn positions(&self) -> u64 {
        match self.work.phase {
            Phase::Decode => 1,
            Phase::Prefill => self.work.context.div_ceil(self.each),
        }
    }

    /// What a kernel of this is told apart by.
    pub fn label(&self) -> String {
        let Work { batch, context, dtype, .. } = self.work;
        let tokens = self.tokens();
        format!("{} {dtype} {tokens} of {batch}x{context}", self.spec.name)
    }
}

fn even(what: &'static str, value: u64, of: u64, why: &'static str) -> Result<(), ModelError> {
    if of > 0 && value > 0 && value.is_multiple_of(of) {
        return Ok(());
    }
    Err(ModelError::Uneven { what, value, of, why })
}
