//! Times of steps on a simulated machine.
//!
//! A step consists of the parts that depend on its number of tokens (products, norms, all-reduces), of one attention
//! launch for all sequences that decode, of one for each part of a prompt, and of the head for the sequences that
//! receive a token. Each is simulated at points of a grid when a step first needs it, and interpolated linearly between
//! them. With [`MachineTimes::exact`] each is simulated at the very numbers that occur.
//!
//! The tokens of a batch with parts of prompts, and of each part, are padded to a multiple of the PEs that share a prompt.
//! The cache of the sequences that decode is dealt evenly over the PEs of a group, so their attention takes as long as
//! the attention of equally many sequences with their mean context.

mod grid;
mod memory;
mod runs;

use std::collections::BTreeMap;

use cubeyard_device::topology::Topology;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::{ModelSpec, Phase, Workload};
use cubeyard_runtime::dtype::DType;
use cubeyard_units::Span;

use crate::error::ServeError;
use crate::shape::{Chunk, StepShape, StepTimes};
use grid::{Around, Axis, Grid};
pub use memory::CacheSize;
use runs::Runs;

/// Number of tokens above which the time of all parts but attention grows linearly, in interpolated times.
const LINEAR: u64 = 512;

/// Model that is served, with its machine.
#[derive(Clone, Debug)]
pub struct ServedModel {
    /// Dimensions of the model.
    pub spec: ModelSpec,
    /// Element type of activations, and of the embedding and the head.
    pub dtype: DType,
    /// Element type of the weights of layers.
    pub weights: DType,
    /// Element type of the caches of K and V; `dtype` if `None`.
    pub kv: Option<DType>,
    /// Placement of experts, if the model has any.
    pub experts: ExpertPlacement,
    /// Topology of the simulated machine.
    pub topology: Topology,
}

impl ServedModel {
    /// Returns the workload of a step.
    fn work(&self, phase: Phase, batch: u64, context: u64) -> Workload {
        let Self { dtype, weights, kv, experts, .. } = *self;
        Workload { phase, batch, context, chunk: context, dtype, weights, experts, kv }
    }
}

/// Parts of a step that are simulated, with the numbers on which their times depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    /// All but attention and head, of sequences that decode.
    Decode(u64),
    /// All but attention and head, of tokens of a prompt.
    Prefill(u64),
    /// Head of sequences.
    Head(u64),
    /// Attention of all layers for sequences that decode, with their context.
    DecodeAttention(u64, u64),
    /// Attention of all layers for a part of a prompt, with its position.
    ChunkAttention(u64, u64),
}

/// Times of the steps of a model on a machine.
pub struct MachineTimes<'a> {
    runs: Runs<'a>,
    grid: Grid,
    known: BTreeMap<Piece, Span>,
    /// Time between the end of a part and the start of the next, in a decode step of one sequence.
    gap: Span,
    /// Function that is called before each simulation, with a description of it.
    told: Box<dyn FnMut(&str) + 'a>,
}

/// Interpolated time of a step beside the simulated one.
#[derive(Clone, Debug)]
pub struct StepCheck {
    /// Shape of the batch.
    pub shape: StepShape,
    /// Interpolated time.
    pub interpolated: Span,
    /// Simulated time.
    pub simulated: Span,
}

impl StepCheck {
    /// Returns the relative error of the interpolated time.
    pub fn error(&self) -> f64 {
        self.interpolated.ps() as f64 / self.simulated.ps().max(1) as f64 - 1.0
    }
}

impl<'a> MachineTimes<'a> {
    /// Creates times that are interpolated between simulated ones. `told` is called before each simulation.
    pub fn interpolated(model: &'a ServedModel, told: impl FnMut(&str) + 'a) -> Self {
        Self {
            runs: Runs::new(model),
            grid: Grid::Steps,
            known: BTreeMap::new(),
            gap: Span::ZERO,
            told: Box::new(told),
        }
    }

    /// Creates times of which each is simulated. `told` is called before each simulation.
    pub fn exact(model: &'a ServedModel, told: impl FnMut(&str) + 'a) -> Self {
        Self { grid: Grid::Each, ..Self::interpolated(model, told) }
    }

    /// Returns the number of simulations so far.
    pub fn simulated(&self) -> u64 {
        self.runs.count()
    }

    /// Returns the times of some steps, interpolated and simulated.
    pub fn check(&mut self, shapes: &[StepShape]) -> Result<Vec<StepCheck>, ServeError> {
        let check = |shape: &StepShape| {
            let interpolated = self.span(shape)?;
            let grid = std::mem::replace(&mut self.grid, Grid::Each);
            let simulated = self.span(shape);
            self.grid = grid;
            Ok(StepCheck { shape: shape.clone(), interpolated, simulated: simulated? })
        };
        shapes.iter().map(check).collect()
    }

    /// Returns the time of a piece, interpolated between points of the grid.
    fn piece(&mut self, piece: Piece) -> Result<Span, ServeError> {
        match piece {
            Piece::Decode(tokens) => self.along(tokens, Piece::Decode),
            Piece::Prefill(tokens) => {
                let around = self.tokens_around(tokens)?;
                self.between(around, Piece::Prefill)
            }
            Piece::Head(rows) => self.along(rows, Piece::Head),
            Piece::DecodeAttention(count, context) => {
                let (counts, lengths) =
                    (self.grid.around(count, Axis::Count), self.grid.around(context, Axis::Length));
                let mut at =
                    |count| self.between(lengths, |length| Piece::DecodeAttention(count, length));
                let [low, high] = [at(counts.low)?, at(counts.high)?];
                Ok(counts.between(low, high))
            }
            Piece::ChunkAttention(tokens, position) => {
                let (counts, grid) = (self.tokens_around(tokens)?, self.grid);
                let mut at = |count| {
                    let positions = grid.around_multiples(position, count, Axis::Parts);
                    self.between(positions, |position| Piece::ChunkAttention(count, position))
                };
                let [low, high] = [at(counts.low)?, at(counts.high)?];
                Ok(counts.between(low, high))
            }
        }
    }

    /// Interpolates along the numbers of sequences.
    fn along(&mut self, at: u64, piece: fn(u64) -> Piece) -> Result<Span, ServeError> {
        self.between(self.grid.around(at, Axis::Count), piece)
    }

    /// Interpolates between the times of two pieces.
    fn between(
        &mut self,
        around: Around,
        piece: impl Fn(u64) -> Piece,
    ) -> Result<Span, ServeError> {
        let [low, high] = [around.low, around.high].map(|at| self.run(piece(at)));
        Ok(around.between(low?, high?))
    }

    /// Returns the points around a number of tokens, which is padded to a multiple of the PEs that share a prompt. Beyond
    /// [`LINEAR`] tokens the line through the last two points goes on.
    fn tokens_around(&mut self, tokens: u64) -> Result<Around, ServeError> {
        let unit = self.runs.unit()?;
        let tokens = tokens.next_multiple_of(unit);
        let [low, high] = [LINEAR / 2, LINEAR].map(|most| most.next_multiple_of(unit));
        if self.grid == Grid::Steps && tokens > high && low < high {
            return Ok(Around { low, high, at: tokens });
        }
        Ok(self.grid.around_multiples(tokens, unit, Axis::Count))
    }

    /// Returns the parts in which the attention of a part of a prompt is simulated: at most [`LINEAR`] tokens at once,
    /// unless every number is simulated. Together they have the same pairs of tokens.
    fn attention_parts(&mut self, chunk: Chunk) -> Result<Vec<Chunk>, ServeError> {
        let most = match self.grid {
            Grid::Each => chunk.tokens,
            Grid::Steps => LINEAR.next_multiple_of(self.runs.unit()?),
        };
        let Chunk { tokens, position } = chunk;
        let part = |start| Chunk { tokens: most.min(tokens - start), position: position + start };
        Ok((0..tokens)
            .step_by(usize::try_from(most.max(1)).unwrap_or(usize::MAX))
            .map(part)
            .collect())
    }

    /// Simulates a piece, unless its time is known.
    fn run(&mut self, piece: Piece) -> Result<Span, ServeError> {
        if let Some(span) = self.known.get(&piece) {
            return Ok(*span);
        }
        match piece {
            Piece::Prefill(tokens) | Piece::ChunkAttention(tokens, 0) => {
                (self.told)(&Piece::Prefill(tokens).text());
                let base = self.runs.prefill(tokens)?;
                self.known.insert(Piece::Prefill(tokens), base.rest);
                self.known.insert(Piece::ChunkAttention(tokens, 0), base.attention);
            }
            Piece::Decode(count) | Piece::Head(count) => {
                (self.told)(&piece.text());
                let base = self.runs.decode(count)?;
                if count == 1 {
                    self.gap = base.gap;
                }
                self.known.insert(Piece::Decode(count), base.rest);
                self.known.insert(Piece::Head(count), base.head);
            }
            Piece::DecodeAttention(count, length) => {
                self.attention_of(piece, Phase::Decode, [count, length])?;
            }
            Piece::ChunkAttention(count, length) => {
                self.attention_of(piece, Phase::Prefill, [count, length])?;
            }
        }
        Ok(self.known[&piece])
    }

    /// Simulates attention alone.
    fn attention_of(
        &mut self,
        piece: Piece,
        phase: Phase,
        [count, length]: [u64; 2],
    ) -> Result<(), ServeError> {
        (self.told)(&piece.text());
        let span = self.runs.attention(phase, count, length)?;
        self.known.insert(piece, span);
        Ok(())
    }

    /// Returns the time of attention in all layers, and the number of its launches in a layer.
    fn attention(&mut self, shape: &StepShape) -> Result<(Span, u64), ServeError> {
        let (mut span, mut launches) = (Span::ZERO, 0);
        if shape.decodes > 0 {
            span += self.piece(Piece::DecodeAttention(shape.decodes, shape.mean_context()))?;
            launches += 1;
        }
        for &chunk in &shape.chunks {
            for Chunk { tokens, position } in self.attention_parts(chunk)? {
                span += self.piece(Piece::ChunkAttention(tokens, position))?;
            }
            launches += 1;
        }
        Ok((span, launches))
    }
}

impl StepTimes for MachineTimes<'_> {
    fn span(&mut self, shape: &StepShape) -> Result<Span, ServeError> {
        let (attention, launches) = self.attention(shape)?;
        let mut rest = Span::ZERO;
        if shape.decodes > 0 {
            rest = self.piece(Piece::Decode(shape.decodes))?;
        }
        if !shape.chunks.is_empty() {
            rest = rest.max(self.piece(Piece::Prefill(shape.tokens()))?);
        }
        let head =
            if shape.sampled > 0 { self.piece(Piece::Head(shape.sampled))? } else { Span::ZERO };
        let layers = self.runs.layers();
        // Each further launch of attention follows the one before it like any other launch.
        if launches > 1 {
            self.run(Piece::Decode(1))?;
        }
        let gaps = self.gap * launches.saturating_sub(1);
        Ok(rest + attention + gaps * layers + head)
    }
}

impl Piece {
    /// Returns a description for people.
    fn text(self) -> String {
        match self {
            Self::Decode(count) | Self::Head(count) => format!("decode of {count}"),
            Self::Prefill(tokens) => format!("prefill of {tokens}"),
            Self::DecodeAttention(count, context) => format!("attention of {count} × {context}"),
            Self::ChunkAttention(tokens, position) => {
                format!("attention of {tokens} after {position}")
            }
        }
    }
}
