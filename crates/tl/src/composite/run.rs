//! The arithmetic of a composite in data mode, tile by tile.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::CompositeKind;
use super::indices::{Extremes, element_of};
use super::plan::{Plan, PlanComputation, PlanEpilogue, PlanOperand, PlanSource, spread};
use crate::input::{Input, ValueId};
use crate::numeric::{self, Array, Binary, NumericError, Reduce, TileType};

/// Tiles of a composite in flight.
#[derive(Debug, Default)]
pub(crate) struct PlanRun {
    /// Loaded tiles that no step has used yet, by load.
    loaded: BTreeMap<u32, Array>,
    /// Sums over the steps of output tiles in flight: two, if the matrix unit runs ahead of the vector unit.
    sums: BTreeMap<u32, Array>,
    /// Greatest or least elements of rows over the steps so far, for a reduction to indices.
    elements: BTreeMap<u32, Array>,
    /// Output tiles that wait to be stored.
    outs: BTreeMap<u32, Array>,
    /// The whole output, if it stays in the TCM.
    whole: Option<Array>,
    /// Row reductions of the current row of tiles, and of all rows so far.
    columns: Vec<[Option<Array>; 2]>,
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
        value: &mut dyn FnMut(&Input) -> Rc<Array>,
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
            PlanComputation::Rows { out, number } => self.reduce_rows(plan, out, number)?,
            PlanComputation::AtTheEnd { number } => self.at_the_end(plan, number, value)?,
        }
        match plan.ends_tile(index) {
            Some(out) => self.finish_tile(plan, out),
            None => Ok(()),
        }
    }

    /// Removes an output tile and returns its bytes.
    pub(crate) fn payload(&mut self, out: u32) -> Vec<u8> {
        self.outs.remove(&out).expect("it was computed before").to_bytes()
    }

    /// Removes and returns the values that stay in the TCM: the whole output, if it does, and its row reductions.
    pub(crate) fn results(&mut self, plan: &Plan) -> Vec<(ValueId, Array)> {
        let whole = plan.value.map(|value| (value, self.whole.take()));
        let columns = std::mem::take(&mut self.columns).into_iter().map(|[_, all]| all);
        let columns = plan.row_values.iter().copied().zip(columns);
        let made = whole.into_iter().chain(columns);
        made.map(|(value, array)| (value, array.expect("all tiles were computed"))).collect()
    }

    /// Reduces the rows of an output tile, and joins the result with the results of the tiles to its left.
    fn reduce_rows(&mut self, plan: &Plan, out: u32, number: usize) -> Result<(), NumericError> {
        let reduce = plan.rows[number];
        let part =
            numeric::reduce(reduce, self.sums.get(&out).expect("a step came before"), 1, true)?;
        self.columns.resize(plan.rows.len(), [None, None]);
        let [row, all] = &mut self.columns[number];
        let joined = join(reduce, row.take(), part)?;
        if !plan.ends_row(out) {
            *row = Some(joined);
            return Ok(());
        }
        let all = match all {
            Some(all) => all,
            none => none.insert(Array::full(plan.columns()[number].clone(), 0.0)?),
        };
        let ([first, _], _) = plan.output_box(out);
        numeric::paste(all, &[first, 0], &joined)
    }

    fn step(
        &mut self,
        plan: &Plan,
        out: u32,
        step: u32,
        value: &mut dyn FnMut(&Input) -> Rc<Array>,
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
            CompositeKind::Reduce(reduce) => match element_of(*reduce) {
                Some(element) => {
                    let ([_, first], _) = plan.source_box(0, out, step);
                    let part = Extremes::new([*reduce, element], tiles[0], first)?;
                    self.join_indices(*reduce, out, sum, part)?
                }
                None => join(*reduce, sum, numeric::reduce(*reduce, tiles[0], 1, true)?)?,
            },
        };
        self.sums.insert(out, sum);
        Ok(())
    }

    /// Joins the extremes of a step with the extremes of earlier steps, and returns their indices.
    fn join_indices(
        &mut self,
        reduce: Reduce,
        out: u32,
        indices: Option<Array>,
        part: Extremes,
    ) -> Result<Array, NumericError> {
        let joined = match indices.zip(self.elements.remove(&out)) {
            Some((indices, elements)) => Extremes { indices, elements }.join(reduce, &part)?,
            None => part,
        };
        self.elements.insert(out, joined.elements);
        Ok(joined.indices)
    }

    fn epilogue(
        &mut self,
        plan: &Plan,
        out: u32,
        epilogue: &PlanEpilogue,
        value: &mut dyn FnMut(&Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let sum = self.sums.remove(&out).expect("a step came before");
        let (start, shape) = plan.output_box(out);
        self.sums.insert(out, applied(epilogue, &sum, start, shape, value)?);
        Ok(())
    }

    fn at_the_end(
        &mut self,
        plan: &Plan,
        number: usize,
        value: &mut dyn FnMut(&Input) -> Rc<Array>,
    ) -> Result<(), NumericError> {
        let whole = self.whole.take().expect("all tiles came before");
        let shape = [plan.output().shape[0], plan.output().shape[1]];
        let whole = applied(&plan.epilogues[2][number], &whole, [0; 2], shape, value)?;
        let is_last = number + 1 == plan.epilogues[2].len();
        self.whole =
            Some(if is_last { numeric::cast(&whole, plan.output().dtype)? } else { whole });
        Ok(())
    }

    fn finish_tile(&mut self, plan: &Plan, out: u32) -> Result<(), NumericError> {
        let sum = self.sums.remove(&out).expect("a step came before");
        self.elements.remove(&out);
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

/// Applies an epilogue to the box of the output with this start and shape.
fn applied(
    epilogue: &PlanEpilogue,
    result: &Array,
    start: [u64; 2],
    shape: [u64; 2],
    value: &mut dyn FnMut(&Input) -> Rc<Array>,
) -> Result<Array, NumericError> {
    let dtype = epilogue.dtype(result.ty().dtype);
    let cast;
    let result = if dtype == result.ty().dtype {
        result
    } else {
        cast = numeric::cast(result, dtype)?;
        &cast
    };
    let mut operands = Vec::with_capacity(epilogue.operands.len());
    for operand in &epilogue.operands {
        operands.push(match operand {
            PlanOperand::Result => None,
            PlanOperand::Number(number) => Some(Array::full(TileType::scalar(dtype), *number)?),
            PlanOperand::Tile(input) => {
                let part = clipped(&value(input), start, shape)?;
                Some(numeric::cast(&part, dtype)?)
            }
        });
    }
    let operands: Vec<_> = operands.iter().map(|other| other.as_ref().unwrap_or(result)).collect();
    epilogue.op.compute(&operands)
}

/// Returns the part of an epilogue's tile for a box of the output.
fn clipped(tile: &Array, start: [u64; 2], shape: [u64; 2]) -> Result<Array, NumericError> {
    if tile.ty().shape.len() == 1 {
        return numeric::slice(tile, &start[1..], &shape[1..]);
    }
    let is = spread(tile.ty());
    let [start, shape] = [(start, 0), (shape, 1)]
        .map(|(of, one)| [0, 1].map(|axis| if is[axis] { of[axis] } else { one }));
    numeric::slice(tile, &start, &shape)
}

/// Combines a partial reduction with the result of the columns to its left, if any.
fn join(reduce: Reduce, left: Option<Array>, part: Array) -> Result<Array, NumericError> {
    let Some(left) = left else { return Ok(part) };
    let operation = match reduce {
        Reduce::Sum => Binary::Add,
        Reduce::Max => Binary::Maximum,
        Reduce::Min => Binary::Minimum,
        Reduce::Prod => Binary::Mul,
        Reduce::Xor => Binary::Xor,
        Reduce::Argmax | Reduce::Argmin => unreachable!("indices are joined with their elements"),
    };
    numeric::binary(operation, &left, &part)
}
