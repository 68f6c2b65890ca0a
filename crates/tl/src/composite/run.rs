//! The arithmetic of a composite in data mode, tile by tile.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::plan::{Plan, PlanComputation, PlanOperand, PlanSource};
use super::{CompositeKind, Op};
use crate::numeric::{self, Array, Binary, NumericError, Reduce, TileType};

/// Tiles of a composite under way.
#[derive(Debug, Default)]
pub(crate) struct PlanRun {
    /// Loaded tiles that no step has used yet, by load.
    loaded: BTreeMap<u32, Array>,
    /// Sums over the steps of output tiles under way: two, if the matrix engine runs ahead of the vector engine.
    sums: BTreeMap<u32, Array>,
    /// Output tiles that wait to be stored.
    outs: BTreeMap<u32, Array>,
    /// The whole output, if it stays in the TCM.
    whole: Option<Array>,
}

impl PlanRun {
    pub(crate) fn loaded(
        &mut self,
        plan: &Plan,
        load: u32,
        bytes: &[u8],
    ) -> Result<(), NumericError> {
        let (source, out, step) = plan.load_of(load);
        let (_, shape) = plan.source_box(source, out, step);
        let ty =
            TileType { dtype: plan.sources[source].ty().dtype, shape: shape.as_slice().into() };
        self.loaded.insert(load, Array::from_bytes(&ty, bytes)?);
        Ok(())
    }

    /// Performs one computation; `value` returns the elements of a pinned tile.
    pub(crate) fn computed(
        &mut self,
        plan: &Plan,
        index: u32,
        value: &mut dyn FnMut(&super::super::Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let computation = plan.computation(index);
        match computation {
            PlanComputation::Step { out, step } => self.step(plan, out, step, value)?,
            PlanComputation::AfterStep { out, number, .. } => {
                self.epilogue(plan, out, &plan.epilogues[0][number], value)?;
            }
            PlanComputation::AfterTile { out, number } => {
                self.epilogue(plan, out, &plan.epilogues[1][number], value)?;
            }
            PlanComputation::AtTheEnd { number } => self.at_the_end(plan, number, value)?,
        }
        match plan.ends_tile(computation) {
            Some(out) => self.finish_tile(plan, out),
            None => Ok(()),
        }
    }

    /// Removes an output tile and returns its bytes.
    pub(crate) fn payload(&mut self, out: u32) -> Vec<u8> {
        self.outs.remove(&out).expect("it was computed before").to_bytes()
    }

    /// Returns the whole output, if it stays in the TCM.
    pub(crate) fn output(self) -> Option<Array> {
        self.whole
    }

    fn step(
        &mut self,
        plan: &Plan,
        out: u32,
        step: u32,
        value: &mut dyn FnMut(&super::super::Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let mut tiles = Vec::with_capacity(plan.sources.len());
        for (index, source) in plan.sources.iter().enumerate() {
            let tile = match source {
                PlanSource::Memory(_) => {
                    let is = |load: u32| plan.load_of(load) == (index, out, step);
                    let load = self.loaded.keys().copied().find(|&load| is(load));
                    self.loaded.remove(&load.expect("it was loaded before")).expect("just found")
                }
                PlanSource::Pinned(input) => {
                    let (start, shape) = plan.source_box(index, out, step);
                    numeric::slice(&value(input), &start, &shape)?
                }
            };
            tiles.push(tile);
        }
        let tiles: Vec<_> = tiles.iter().collect();
        let sum = self.sums.remove(&out);
        let sum = match &plan.kind {
            CompositeKind::Gemm => numeric::dot(tiles[0], tiles[1], sum.as_ref())?,
            CompositeKind::Map(op) => op.compute(&tiles)?,
            CompositeKind::Reduce(reduce) => {
                let part = numeric::reduce(*reduce, tiles[0], 1, true)?;
                match sum {
                    Some(sum) => numeric::binary(joins(*reduce), &sum, &part)?,
                    None => part,
                }
            }
        };
        self.sums.insert(out, sum);
        Ok(())
    }

    fn epilogue(
        &mut self,
        plan: &Plan,
        out: u32,
        (op, operand): &(Op, Option<PlanOperand>),
        value: &mut dyn FnMut(&super::super::Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let sum = self.sums.remove(&out).expect("a step came before");
        let (start, shape) = plan.output_box(out);
        let other = operand.as_ref().map(|operand| other(operand, &sum, start, shape, value));
        let other = other.transpose()?;
        let inputs: Vec<_> = std::iter::once(&sum).chain(&other).collect();
        self.sums.insert(out, op.compute(&inputs)?);
        Ok(())
    }

    fn at_the_end(
        &mut self,
        plan: &Plan,
        number: usize,
        value: &mut dyn FnMut(&super::super::Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let (op, operand) = &plan.epilogues[2][number];
        let whole = self.whole.take().expect("all tiles came before");
        let shape = [plan.output().shape[0], plan.output().shape[1]];
        let other = operand.as_ref().map(|operand| other(operand, &whole, [0; 2], shape, value));
        let other = other.transpose()?;
        let inputs: Vec<_> = std::iter::once(&whole).chain(&other).collect();
        self.whole = Some(op.compute(&inputs)?);
        Ok(())
    }

    fn finish_tile(&mut self, plan: &Plan, out: u32) -> Result<(), NumericError> {
        let sum = self.sums.remove(&out).expect("a step came before");
        let tile = numeric::cast(&sum, plan.output().dtype)?;
        if plan.value.is_none() {
            self.outs.insert(out, tile);
            return Ok(());
        }
        let whole = match &mut self.whole {
            Some(whole) => whole,
            none => none.insert(Array::full(plan.output().clone(), 0.0)?),
        };
        let (start, _) = plan.output_box(out);
        numeric::paste(whole, &start, &tile)
    }
}

/// Returns the second operand of an epilogue, clipped to the box and cast to the type of the first.
fn other(
    operand: &PlanOperand,
    beside: &Array,
    start: [u64; 2],
    shape: [u64; 2],
    value: &mut dyn FnMut(&super::super::Input) -> Rc<Array>,
) -> Result<Array, NumericError> {
    let dtype = beside.ty().dtype;
    match operand {
        PlanOperand::Number(number) => Array::full(TileType::scalar(dtype), *number),
        PlanOperand::Tile(input) => {
            let all = value(input);
            let part = if input.ty.shape.len() == 1 {
                numeric::slice(&all, &start[1..], &shape[1..])?
            } else {
                numeric::slice(&all, &start, &shape)?
            };
            numeric::cast(&part, dtype)
        }
    }
}

/// Returns the operation that combines two partial reductions.
fn joins(reduce: Reduce) -> Binary {
    match reduce {
        Reduce::Sum => Binary::Add,
        Reduce::Max => Binary::Maximum,
        Reduce::Min => Binary::Minimum,
        Reduce::Prod => Binary::Mul,
        Reduce::Xor | Reduce::Argmax | Reduce::Argmin => Binary::Xor,
    }
}
