//! Sums over an outer dimension.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Ref, Tile, Tl};

use crate::compute::{apply, cast, sum};
use crate::cost::{Measured, Vector};
use crate::error::OperatorError;
use crate::machine::{OperatorMachine, Stage, address};
use crate::pointwise::{Streams, flat};
use crate::steady::steady;
use crate::tensor::Tensor;

/// Elements of a tile, and its columns.
const TILE: u64 = 16 << 10;
const WIDE: u64 = 2048;

/// Steps that are simulated of a longer kernel.
const FEW: [u64; 2] = [3, 6];

/// Sums of parts of rows: blocks `[outer, size, inner]`, of which a task sums some rows of some columns.
#[derive(Clone, Copy, Debug)]
struct Columns {
    outer: u64,
    size: u64,
    inner: u64,
    /// Columns of a task.
    wide: u64,
    /// Parts of the rows, each for another task. Rows of a part are `parts` apart, so that they lie in pages of one PE where
    /// the length of a row allows.
    parts: u64,
    /// Rows of a tile.
    tall: u64,
    pes: u64,
}

impl Columns {
    fn new(machine: &OperatorMachine, [outer, size, inner]: [u64; 3], element: u64) -> Self {
        let pes = machine.pes();
        let page = machine.page() / element.max(1);
        let wide = inner.min(page.clamp(1, WIDE));
        let tasks = outer * inner.div_ceil(wide);
        let parts = pes.div_ceil(tasks).min(size.div_ceil(4)).max(1);
        let tall = (TILE / wide).clamp(1, size.div_ceil(parts).div_ceil(3).max(1));
        Self { outer, size, inner, wide, parts, tall, pes }
    }

    fn tasks(&self) -> u64 {
        self.outer * self.inner.div_ceil(self.wide) * self.parts
    }

    /// Returns the steps of a task.
    fn each(&self) -> u64 {
        self.size.div_ceil(self.parts).div_ceil(self.tall)
    }

    /// Returns outer index, first column, columns and part of a task. Neighbouring tasks are neighbours in memory.
    fn task(&self, number: u64) -> [u64; 4] {
        let across = self.inner.div_ceil(self.wide);
        let column = number % across * self.wide;
        let part = number / across % self.parts;
        [number / across / self.parts, column, self.wide.min(self.inner - column), part]
    }
}

impl OperatorMachine {
    pub(super) fn reduce_columns(
        &self,
        sources: &[DType],
        outs: &[DType],
        [outer, size, inner]: [u64; 3],
        work: Vector,
    ) -> Result<(String, Measured), OperatorError> {
        let element = sources.iter().map(|dtype| dtype.size()).max().unwrap_or(1);
        let columns = Columns::new(self, [outer, size, inner], element);
        let tensor = |dtype: &DType| Tensor::contiguous(&[outer, size, inner], *dtype).storage();
        let mut storages: Vec<_> = sources.iter().map(tensor).collect();
        let partial = |dtype: &DType| {
            outer * inner * columns.parts * if columns.parts > 1 { 4 } else { dtype.size() }
        };
        storages.extend(outs.iter().map(partial));
        let types = Rc::new((sources.to_vec(), outs.to_vec()));
        let name = format!("columns {}x{} in {} parts", columns.tall, columns.wide, columns.parts);
        let waves = columns.tasks().div_ceil(self.pes());
        let run = |steps| self.run(&name, &storages, &[stage(columns, &types, work, steps)]);
        let first = steady(waves * columns.each(), self.few(FEW), run)?;
        if columns.parts == 1 {
            return Ok((name.clone(), first));
        }
        let mut total = first;
        for dtype in outs {
            let shape = [outer * inner];
            let mut tensors = vec![
                Tensor::contiguous(&shape, DType::F32);
                usize::try_from(columns.parts).unwrap_or(1)
            ];
            let operands = tensors.len();
            tensors.push(Tensor::contiguous(&shape, *dtype));
            let places = (0..tensors.len()).collect();
            let streams = Streams {
                tensors,
                operands,
                places,
                work: Vector { simple: columns.parts - 1, special: 0 },
            };
            total = total.then(flat(self, streams, outer * inner)?);
        }
        Ok((name.clone(), total))
    }
}

fn stage(
    columns: Columns,
    types: &Rc<(Vec<DType>, Vec<DType>)>,
    work: Vector,
    steps: u64,
) -> Stage {
    let types = Rc::clone(types);
    Rc::new(move |tl: &Tl, turn| {
        let (sources, outs) = &*types;
        let numbers = (turn..columns.tasks()).step_by(usize::try_from(columns.pes).unwrap_or(1));
        let items = numbers.flat_map(|number| (0..columns.each()).map(move |step| (number, step)));
        let items = items.take(usize::try_from(steps).unwrap_or(usize::MAX));
        let loads = items.map(|(number, step)| {
            let [outer, column, wide, part] = columns.task(number);
            let held = columns.size.saturating_sub(part).div_ceil(columns.parts);
            let rows = columns.tall.min(held.saturating_sub(step * columns.tall));
            let first = part + step * columns.tall * columns.parts;
            let load = |(at, dtype): (usize, &DType)| {
                let element = (outer * columns.size + first) * columns.inner + column;
                let from = address(at) + element * dtype.size();
                let strides = [columns.parts * columns.inner, 1];
                tl.load(&Ref::new(from, &[rows.max(1), wide], *dtype).strided(&strides))
            };
            let loaded: Vec<_> =
                if rows == 0 { Vec::new() } else { sources.iter().enumerate().map(load).collect() };
            (number, step + 1 == columns.each(), loaded)
        });
        let mut sums: Option<Tile> = None;
        for (number, is_last, loaded) in ahead(loads) {
            if let Some((x, done)) = sum(&loaded, DType::F32) {
                let part = apply(x, work, done).sum_keep(0);
                sums = Some(match sums.take() {
                    Some(before) => tl.eval(&(part + &before)),
                    None => tl.eval(&part),
                });
            }
            if let Some(total) = sums.take_if(|_| is_last) {
                store(tl, &columns, number, sources.len(), outs, &total);
            }
        }
    })
}

fn store(tl: &Tl, columns: &Columns, number: u64, first: usize, outs: &[DType], total: &Tile) {
    let [outer, column, wide, part] = columns.task(number);
    for (at, dtype) in (first..).zip(outs) {
        let dtype = if columns.parts > 1 { DType::F32 } else { *dtype };
        let element = (part * columns.outer + outer) * columns.inner + column;
        let to = Ref::new(address(at) + element * dtype.size(), &[1, wide], dtype);
        let result =
            if dtype == DType::F32 { total.clone() } else { tl.eval(&cast(total.lazy(), dtype)) };
        tl.store(&to, &result);
    }
}
