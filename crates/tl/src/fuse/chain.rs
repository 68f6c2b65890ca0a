//! Chains: the operations of expressions in the order in which a pass runs them, their cost and their results.

use std::rc::Rc;

use cubeyard_device::pe::{OpUnit, Strips};
use cubeyard_device::topology::CoreSpec;
use cubeyard_sim::Span;
use smallvec::SmallVec;

use super::{LazyKind, LazyNode};
use crate::Tile;
use crate::input::{Input, ValueId};
use crate::numeric::{Array, Constant, NumericError, TileType};
use crate::op::Op;

/// A chain under construction.
#[derive(Default)]
pub(super) struct ChainBuilder {
    pub(super) chain: Chain,
    /// Nodes of the expressions by step, so that a node that occurs twice is a single step.
    seen: Vec<Rc<LazyNode>>,
    /// Tiles of the inputs.
    pub(super) tiles: Vec<Tile>,
}

impl ChainBuilder {
    /// Adds a node and its missing dependencies, and returns the location of its value.
    pub(super) fn add(&mut self, node: &Rc<LazyNode>) -> ChainSource {
        match &node.kind {
            LazyKind::Number(number) => ChainSource::Number(*number, node.ty.clone()),
            LazyKind::Tile(tile) => ChainSource::Input(self.input(tile)),
            LazyKind::Operation(op, operands) => {
                if let Some(step) = self.seen.iter().position(|seen| Rc::ptr_eq(seen, node)) {
                    return ChainSource::Step(step);
                }
                let operands = operands.iter().map(|operand| self.add(operand)).collect();
                let (op, ty, row) = (op.clone(), node.ty.clone(), node.row);
                self.chain.steps.push(ChainStep { op, operands, ty, row });
                self.seen.push(Rc::clone(node));
                ChainSource::Step(self.chain.steps.len() - 1)
            }
        }
    }

    fn input(&mut self, tile: &Tile) -> usize {
        let same = |other: &Tile| other.value() == tile.value() && other.ty() == tile.ty();
        if let Some(place) = self.tiles.iter().position(same) {
            return place;
        }
        self.tiles.push(tile.clone());
        self.chain.inputs.push(tile.input());
        self.tiles.len() - 1
    }
}

/// Operations that run as one pass, each after its operands.
#[derive(Debug, Default)]
pub struct Chain {
    steps: Vec<ChainStep>,
    /// Tiles that the chain reads.
    inputs: Vec<Input>,
    /// Steps whose results are stored, and the ids of these values.
    pub(super) outputs: Vec<usize>,
    pub(super) values: Vec<ValueId>,
}

#[derive(Debug)]
struct ChainStep {
    op: Op,
    operands: SmallVec<[ChainSource; 3]>,
    ty: TileType,
    /// Row length, if the step broadcasts a reduction of the same pass over its rows.
    row: Option<u64>,
}

/// Origin of an operand of a step: a tile in the TCM, a number, or the result of an earlier step.
#[derive(Clone, Debug)]
pub(super) enum ChainSource {
    Input(usize),
    Number(Constant, TileType),
    Step(usize),
}

impl Chain {
    /// Returns the tiles that the chain reads.
    pub(crate) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns the values that the chain computes.
    pub(crate) fn values(&self) -> &[ValueId] {
        &self.values
    }

    pub(super) fn flop(&self) -> u64 {
        let of = |step: &ChainStep| step.op.flop(&self.types(step), &step.ty);
        self.steps.iter().map(of).sum()
    }

    fn types<'a>(&'a self, step: &'a ChainStep) -> SmallVec<[&'a TileType; 3]> {
        let of = |source: &'a ChainSource| match source {
            ChainSource::Input(input) => &self.inputs[*input].ty,
            ChainSource::Number(_, ty) => ty,
            ChainSource::Step(step) => &self.steps[*step].ty,
        };
        step.operands.iter().map(of).collect()
    }

    /// Returns the number of elements of a step's largest operand, or of its result if that is larger.
    fn elements(&self, step: &ChainStep) -> u64 {
        let types = self.types(step);
        types.iter().map(|ty| ty.elements()).max().unwrap_or(0).max(step.ty.elements())
    }

    /// Returns the number of strips: as few as the largest tile needs, and whole rows if a step broadcasts a reduction.
    fn count(&self, strip: u64) -> u64 {
        let of = |step: &ChainStep| {
            let elements = self.elements(step);
            match step.row {
                Some(row) => (elements / row).div_ceil(strip / row),
                None => elements.div_ceil(strip),
            }
        };
        self.steps.iter().map(of).max().unwrap_or(0).max(1)
    }

    /// Returns the strips of the pass: each is fetched once, processed by every operation, and stored once.
    pub(super) fn cost(&self, core: &CoreSpec) -> Strips {
        let count = self.count(core.math.strip.into());
        let read: u64 = self.inputs.iter().map(|input| input.ty.nbytes()).sum();
        let written: u64 = self.outputs.iter().map(|&step| self.steps[step].ty.nbytes()).sum();
        let work =
            |step: &ChainStep| step.op.math_rate(core).span(self.elements(step).div_ceil(count));
        Strips {
            unit: OpUnit::Math,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            fetch: core.tcm_read.span(read.div_ceil(count)),
            work: self.steps.iter().map(work).sum::<Span>(),
            store: core.tcm_write.span(written.div_ceil(count)),
        }
    }

    /// Computes the outputs from the inputs.
    pub(crate) fn compute(&self, inputs: &[Rc<Array>]) -> Result<Vec<Array>, NumericError> {
        let mut done: Vec<Rc<Array>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let operands: SmallVec<[Rc<Array>; 3]> = step
                .operands
                .iter()
                .map(|source| match source {
                    ChainSource::Input(input) => Ok(Rc::clone(&inputs[*input])),
                    ChainSource::Number(number, _) => Array::filled(&[], *number).map(Rc::new),
                    ChainSource::Step(step) => Ok(Rc::clone(&done[*step])),
                })
                .collect::<Result<_, _>>()?;
            let operands: SmallVec<[&Array; 3]> = operands.iter().map(|array| &**array).collect();
            done.push(Rc::new(step.op.compute(&operands)?));
        }
        Ok(self.outputs.iter().map(|&step| (*done[step]).clone()).collect())
    }

    /// Returns the operations and the type of the last, e.g. `sub+exp f32[64, 64]`.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<_> = self.steps.iter().map(|step| step.op.name()).collect();
        let ty = self.outputs.first().map(|&step| self.steps[step].ty.to_string());
        format!("{} {}", names.join("+"), ty.unwrap_or_default())
    }
}
