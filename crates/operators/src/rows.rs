//! Operators on the rows of a matrix: softmax, norms, and their gradients.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_tl::{Lazy, Ref, Tile, Tl};

use crate::compute::{apply, cast, evaluated, value, widest};
use crate::copies::Copies;
use crate::cost::{Measured, OperatorCost, Vector, Work};
use crate::error::{OperatorError, refused};
use crate::machine::{OperatorMachine, Stage, address};
use crate::spread::Spread;
use crate::steady::steady;
use crate::tensor::Tensor;

/// Most bytes of a tile, unless a row has more.
const TILE: u64 = 64 << 10;

/// Steps that are simulated of a longer kernel.
const FEW: [u64; 2] = [4, 7];

/// Work on each element of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowWork {
    /// Elements of a row.
    pub columns: u64,
    /// Vector operations for each element.
    pub vector: Vector,
    /// Reductions over the elements of each row.
    pub reduces: u64,
}

/// Tensor of a row operator.
#[derive(Clone, Debug)]
struct Stream {
    tensor: Tensor,
    /// Elements for each row: a whole row, or one number.
    each: u64,
    /// Whether all rows share the elements.
    is_shared: bool,
}

impl OperatorMachine {
    /// Returns the cost of an operator on rows: operands and results of `[.., columns]`, of `[columns]` (weights, which all
    /// rows share), or with one number for each row.
    pub fn rows(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        work: RowWork,
    ) -> Result<OperatorCost, OperatorError> {
        let RowWork { columns, vector, reduces } = work;
        if columns == 0 {
            return refused("columns: expected at least 1, found 0");
        }
        let all = operands.iter().chain(results);
        let Some(elements) = all.clone().map(Tensor::elements).max() else {
            return refused("operands: expected at least one");
        };
        if elements % columns != 0 {
            return refused(format!(
                "columns: {columns} is no divisor of the {elements} elements of the largest tensor"
            ));
        }
        let count = elements / columns;
        let bytes = all.map(Tensor::bytes).sum();
        let bound = Work {
            bytes,
            vector: [elements * vector.simple, elements * vector.special, elements * reduces],
            ..Work::default()
        };
        let (name, run) = self.measure_rows(operands, results, [count, columns], work)?;
        Ok(bound.cost(self, name, &run))
    }

    /// Returns kernel and time of an operator on `count` rows of `columns` elements.
    pub(crate) fn measure_rows(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        [count, columns]: [u64; 2],
        work: RowWork,
    ) -> Result<(String, Measured), OperatorError> {
        let all = operands.iter().chain(results).enumerate();
        let streams = all.map(|(at, tensor)| stream(at, operands.len(), tensor, count, columns));
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        self.run_rows(&Rc::new(streams), operands.len(), count, work)
    }

    fn run_rows(
        &self,
        streams: &Rc<Vec<Stream>>,
        operands: usize,
        count: u64,
        work: RowWork,
    ) -> Result<(String, Measured), OperatorError> {
        let wide = streams.iter().map(|of| of.tensor.dtype.size()).max().unwrap_or(1);
        // Tiles of all tensors twice, and intermediate results in f32.
        let bytes = work.columns * (2 * streams.len() as u64 * wide + 2 * wide.max(4));
        let most = self.scratch() / 2 / bytes.max(1);
        if most == 0 {
            let columns = work.columns;
            let room = self.scratch();
            return refused(format!(
                "columns: a row of {columns} elements, of which a PE holds {bytes} bytes, but its TCM has {room}"
            ));
        }
        let whole = streams.iter().filter(|of| of.each == work.columns && !of.is_shared);
        let element = whole.map(|of| of.tensor.dtype.size()).max().unwrap_or(wide);
        let spread = Spread::new(
            self,
            count,
            work.columns,
            element,
            most.min((TILE / (work.columns * wide)).max(1)),
        );
        let name = format!("rows {}x{}", spread.tile(), work.columns);
        let mut storages: Vec<_> = streams.iter().map(|of| of.tensor.storage()).collect();
        let copies = self.row_copies(&streams[..operands], streams.len(), count);
        storages.extend(copies.iter().map(|copies| copies.map_or(1, |copies| copies.storage())));
        let made: Vec<_> = copies.iter().flatten().map(|copies| copies.stage()).collect();
        let first = Measured { ran: self.run(&name, &storages, &made)?, extrapolated: false };
        let kernel = Rc::new(RowKernel {
            streams: Rc::clone(streams),
            operands,
            spread,
            work,
            copies,
            page: self.page(),
        });
        let run = |steps| self.run(&name, &storages, &[stage(&kernel, steps)]);
        let measured = steady(spread.steps(), self.few(FEW), run)?;
        Ok((name.clone(), first.then(measured)))
    }

    /// Returns copies in the cubes of what all rows share, if many PEs read more than some bursts.
    fn row_copies(&self, operands: &[Stream], first: usize, count: u64) -> Vec<Option<Copies>> {
        let copy = |(at, of): (usize, &Stream)| {
            let bytes = of.tensor.storage();
            let is_worth = of.is_shared && bytes >= 1024 && count >= self.pes();
            is_worth.then(|| Copies::new(self, [at, first + at], bytes))
        };
        operands.iter().enumerate().map(copy).collect()
    }
}

fn stream(
    at: usize,
    operands: usize,
    tensor: &Tensor,
    count: u64,
    columns: u64,
) -> Result<Stream, OperatorError> {
    let tensor = tensor.clone();
    let elements = tensor.elements();
    let (each, is_shared) = match elements {
        _ if elements == count * columns => (columns, false),
        _ if elements == count && (at >= operands || tensor.shape.last() == Some(&1)) => (1, false),
        _ if elements == columns => (columns, true),
        _ if elements == count => (1, false),
        1 => (1, true),
        _ => {
            let (what, at) =
                if at < operands { ("operand", at) } else { ("result", at - operands) };
            let shape = &tensor.shape;
            return refused(format!(
                "{what} {at}: shape {shape:?}, expected {count} rows of {columns} elements, one row, or a number for each row"
            ));
        }
    };
    Ok(Stream { tensor, each, is_shared })
}

impl Stream {
    fn reference(&self, storage: usize, spread: &Spread, [first, rows]: [u64; 2]) -> Ref {
        let (base, dtype) = (address(storage), self.tensor.dtype);
        if self.is_shared {
            return Ref::new(base, &[1, self.each], dtype);
        }
        // Strides of rows are those of a contiguous tensor, or of the dimension before the last.
        let pitch = if self.each == 1 { 1 } else { self.pitch() };
        let (groups, inner) = spread.split(rows);
        let from = base + first * pitch * dtype.size();
        Ref::new(from, &[groups, inner, self.each], dtype).strided(&[
            spread.step() * pitch,
            pitch,
            1,
        ])
    }

    /// Returns the distance of rows: the least stride above a row, else the row itself.
    fn pitch(&self) -> u64 {
        let strides = self.tensor.shape.iter().zip(&self.tensor.strides);
        let wider = strides
            .filter(|(size, stride)| **size > 1 && **stride >= self.each)
            .map(|(_, stride)| *stride);
        wider.min().unwrap_or(self.each)
    }

    /// Loads elements that all rows share, from the copy in the PE's cube if there is one.
    fn shared(
        &self,
        tl: &Tl,
        storage: usize,
        copies: Option<&Copies>,
        [turn, page]: [u64; 2],
    ) -> Tile {
        let (dtype, length) = (self.tensor.dtype, self.each);
        let Some(copies) = copies else {
            return tl.load(&Ref::new(address(storage), &[1, length], dtype));
        };
        let size = dtype.size();
        let parts = (0..(length * size).div_ceil(page)).map(|part| {
            let elements = (page / size).min(length - part * page / size);
            tl.load(&Ref::new(copies.address(turn, part * page), &[1, elements], dtype))
        });
        // There is no load into a part of a tile: a tile of the first part's contents stands for all parts.
        let parts: Vec<_> = parts.collect();
        if parts.len() == 1 { parts[0].clone() } else { tl.full(&[1, length], 0, dtype) }
    }

    fn load(&self, tl: &Tl, storage: usize, spread: &Spread, tile: [u64; 2]) -> Tile {
        let loaded = tl.load(&self.reference(storage, spread, tile));
        let rows = if self.is_shared { 1 } else { tile[1] };
        tl.reshape(&loaded, &[rows, self.each])
    }
}

/// Kernel of an operator on rows.
struct RowKernel {
    streams: Rc<Vec<Stream>>,
    operands: usize,
    spread: Spread,
    work: RowWork,
    copies: Vec<Option<Copies>>,
    page: u64,
}

fn stage(kernel: &Rc<RowKernel>, steps: u64) -> Stage {
    let kernel = Rc::clone(kernel);
    Rc::new(move |tl: &Tl, turn| {
        let RowKernel { streams, operands, spread, work, copies, page } = &*kernel;
        let operands = *operands;
        let tiles = spread.tiles(turn, steps);
        if tiles.is_empty() {
            return;
        }
        let held: Vec<_> = (0..operands)
            .map(|at| {
                streams[at]
                    .is_shared
                    .then(|| streams[at].shared(tl, at, copies[at].as_ref(), [turn, *page]))
            })
            .collect();
        let loads = tiles.into_iter().map(|tile| {
            let load = |at: usize| {
                held[at].clone().unwrap_or_else(|| streams[at].load(tl, at, spread, tile))
            };
            (tile, (0..operands).map(load).collect::<Vec<_>>())
        });
        for (tile, loaded) in ahead(loads) {
            let results: Vec<_> =
                streams[operands..].iter().map(|of| (of.each, of.tensor.dtype)).collect();
            let done = row_pass(tl, &loaded, &results, tile[1], *work);
            for (at, done) in (operands..).zip(done) {
                let to = streams[at].reference(at, spread, tile);
                tl.store(&to, &tl.reshape(&done, &to.ty().shape));
            }
        }
    })
}

/// Returns the results of some rows. The operations are spread evenly around the reductions. Rows that do not fit in a strip
/// of the vector unit need a pass for each reduction.
fn row_pass(
    tl: &Tl,
    tiles: &[Tile],
    results: &[(u64, cubeyard_runtime::dtype::DType)],
    rows: u64,
    work: RowWork,
) -> Vec<Tile> {
    let dtype = widest(
        tiles.iter().map(|tile| tile.ty().dtype).chain(results.iter().map(|(_, dtype)| *dtype)),
    );
    let shape = [rows, work.columns];
    let Some((mut x, mut done)) = crate::compute::sum(tiles, dtype) else {
        return results.iter().map(|(each, dtype)| tl.full(&[rows, *each], 0, *dtype)).collect();
    };
    if *x.ty().shape != shape {
        x = tl.broadcast_to(&value(tl, &x), &shape).lazy();
    }
    let parts = work.reduces + 1;
    let mut last = None;
    for part in 0..work.reduces {
        let portion = |all: u64| all * (part + 1) / parts - all * part / parts;
        let ops =
            Vector { simple: portion(work.vector.simple), special: portion(work.vector.special) };
        let kept = done.min(ops.simple);
        // The combination with the reduction counts as one of the simple operations.
        x = apply(x, ops, (kept + 1).min(ops.simple));
        done -= kept;
        let sum = x.sum_keep(1);
        let is_needed = part + 1 < work.reduces || results.iter().any(|(each, _)| *each != 1);
        let sum = if work.columns <= tl.strip_elements() || !is_needed {
            sum
        } else {
            tl.eval(&sum).lazy()
        };
        last = Some(sum.clone());
        if is_needed {
            x = x + &sum;
        }
    }
    let portion = |all: u64| all - all * work.reduces / parts;
    x = apply(
        x,
        Vector { simple: portion(work.vector.simple), special: portion(work.vector.special) },
        done,
    );
    let number = last.unwrap_or_else(|| x.sum_keep(1));
    let outs: Vec<Lazy> = results
        .iter()
        .map(|(each, dtype)| cast(if *each == 1 { number.clone() } else { x.clone() }, *dtype))
        .collect();
    evaluated(tl, &outs)
}
