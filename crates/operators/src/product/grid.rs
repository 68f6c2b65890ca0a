//! Products in a grid of tiles of the result, each computed by one PE.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Ref, Tile, Tl};

use super::Shape;
use super::shape::Matrix;
use crate::compute::{apply, cast, value};
use crate::cost::{Measured, Vector};
use crate::error::OperatorError;
use crate::machine::{OperatorMachine, Ran, Stage, address};
use crate::pointwise::{Streams, flat};
use crate::steady::scaled;
use crate::tensor::Tensor;

/// Tiles of the result, blocks along k, and parts of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Rows and columns of a tile.
    pub(crate) tile: [u64; 2],
    /// Terms of a block.
    pub(crate) block: u64,
    /// Parts of the sum, each by another PE.
    pub(crate) parts: u64,
}

/// Blocks of a tile that are simulated of more.
const FEW: [u64; 2] = [3, 7];

/// Estimated time of the stage that adds the parts of a sum, in picoseconds.
const SECOND_STAGE: u64 = 1_000_000;

/// Extents of tiles that are tried.
const EDGES: [u64; 6] = [32, 64, 128, 256, 512, 1024];

impl Grid {
    /// Chooses tiles by an estimate of the time of the engine, a PE's wire and the links between cubes.
    pub(crate) fn choose(machine: &OperatorMachine, shape: &Shape) -> Self {
        let pairs = EDGES.iter().flat_map(|m| EDGES.iter().map(move |n| [*m, *n]));
        let of = |tile: [u64; 2]| (0..8).map(move |power| (tile, 1_u64 << power));
        let all = pairs
            .flat_map(of)
            .filter_map(|(tile, parts)| Self::fitting(machine, shape, tile, parts));
        let best = all.min_by_key(|grid| grid.estimate(machine, shape));
        best.unwrap_or(Self { tile: [32, 32], block: 64, parts: 1 })
    }

    fn fitting(
        machine: &OperatorMachine,
        shape: &Shape,
        tile: [u64; 2],
        parts: u64,
    ) -> Option<Self> {
        let whole = |edge: u64, size: u64| edge / 2 < size;
        if !whole(tile[0], shape.m.max(32))
            || !whole(tile[1], shape.n.max(32))
            || parts > 1 && shape.k / parts < 128
        {
            return None;
        }
        let tile = [tile[0].min(shape.m), tile[1].min(shape.n)];
        let element = shape.a.dtype.size().max(shape.b.dtype.size());
        // Two blocks in use and two on their way, a transposed one of each, and two sums.
        let left = (machine.scratch() * 3 / 4).checked_sub(2 * 4 * tile[0] * tile[1])?;
        let most = left / (3 * element * (tile[0] + tile[1]));
        let block = [512, 256, 128, 64].into_iter().find(|block| *block <= most)?;
        Some(Self { tile, block: block.min(shape.k), parts })
    }

    pub(crate) fn tasks(&self, shape: &Shape) -> u64 {
        shape.batch() * shape.m.div_ceil(self.tile[0]) * shape.n.div_ceil(self.tile[1]) * self.parts
    }

    /// Returns the blocks of a task.
    pub(crate) fn steps(&self, shape: &Shape) -> u64 {
        shape.k.div_ceil(self.block).div_ceil(self.parts)
    }

    /// Estimates the time in picoseconds.
    fn estimate(&self, machine: &OperatorMachine, shape: &Shape) -> u64 {
        let (spec, pes) = (machine.topology().spec(), machine.pes());
        let core = &spec.pe.core;
        let tasks = self.tasks(shape);
        let waves = tasks.div_ceil(pes);
        let terms = shape.k.div_ceil(self.parts);
        let [m, k, n] = [core.gemm.m, core.gemm.k, core.gemm.n].map(u64::from);
        let strips = self.tile[0].div_ceil(m) * self.tile[1].div_ceil(n) * terms.div_ceil(k);
        let rate = core.gemm.rates.get(shape.factor().name()).copied().unwrap_or(1).max(1);
        let engine = scaled(waves * strips * 2 * m * k * n, 1_000_000_000_000, rate);
        let loaded =
            terms * (self.tile[0] * shape.a.dtype.size() + self.tile[1] * shape.b.dtype.size());
        let stored =
            if self.parts > 1 { 8 } else { shape.c.dtype.size() } * self.tile[0] * self.tile[1];
        let wire = scaled(
            waves * (loaded + stored),
            1_000_000_000_000,
            spec.pe.link.bandwidth.bytes_per_second(),
        );
        let cubes = u64::from(spec.cube_count());
        let links = if cubes == 1 {
            0
        } else {
            scaled(tasks * (loaded + stored), 1_000_000_000_000, machine.across())
        };
        // What is hidden behind the slowest of the three still delays it at times.
        let slowest = engine.max(wire).max(links);
        let hidden = (engine + wire + links - slowest) / 4;
        let first = wire / (waves * self.steps(shape)).max(1);
        slowest + hidden + first + if self.parts > 1 { SECOND_STAGE } else { 0 }
    }
}

impl OperatorMachine {
    pub(crate) fn product_grid(&self, shape: &Shape) -> Result<(String, Measured), OperatorError> {
        let grid = Grid::choose(self, shape);
        let name = format!("product {}x{}x{}", grid.tile[0], grid.block, grid.tile[1]);
        let name = if grid.parts > 1 { format!("{name} in {} parts", grid.parts) } else { name };
        let shared = Rc::new(shape.clone());
        let mut storages = vec![shape.a.storage, shape.b.storage];
        storages.push(if grid.parts > 1 {
            4 * grid.parts * shape.batch() * shape.m * shape.n
        } else {
            shape.c.storage
        });
        storages.push(shape.added.as_ref().map_or(1, |of| of.storage));
        let run = |waves: u64, steps: u64| {
            self.run(&name, &storages, &[stage(&shared, grid, self.pes(), [waves, steps])])
        };
        let first =
            waves(self.few(FEW), grid.tasks(shape).div_ceil(self.pes()), grid.steps(shape), run)?;
        if grid.parts == 1 {
            return Ok((name.clone(), first));
        }
        Ok((name.clone(), first.then(self.sum_parts(shape, grid.parts)?)))
    }

    /// Sums the parts of a product, and applies the epilogue.
    fn sum_parts(&self, shape: &Shape, parts: u64) -> Result<Measured, OperatorError> {
        let all = shape.batch() * shape.m * shape.n;
        let operands = usize::try_from(parts).unwrap_or(1);
        let mut tensors = vec![Tensor::contiguous(&[all], DType::F32); operands];
        if shape.added.is_some() {
            tensors.push(Tensor::contiguous(&[all], shape.c.dtype));
        }
        let operands = tensors.len();
        tensors.push(Tensor::contiguous(&[all], shape.c.dtype));
        let places = (0..tensors.len()).collect();
        let work = Vector { simple: parts - 1 + shape.work.simple, special: shape.work.special };
        flat(self, Streams { tensors, operands, places, work }, all)
    }
}

/// Runs a kernel whose PEs compute `waves` tiles each in `steps` blocks. Of longer kernels, a few blocks of one and of two
/// tiles are run. Each further block takes what a block takes in one tile, and each further tile what the second takes.
fn waves(
    few: [u64; 2],
    waves: u64,
    steps: u64,
    mut run: impl FnMut(u64, u64) -> Result<Ran, OperatorError>,
) -> Result<Measured, OperatorError> {
    if waves * steps <= few[1] + few[1] / 2 {
        return Ok(Measured { ran: run(waves, steps)?, extrapolated: false });
    }
    let short = steps.min(few[0]);
    let one = run(1, short)?;
    let mut total = one;
    if steps > short {
        let long = steps.min(few[1]);
        let more = run(1, long)?;
        let each = |more: u64, one: u64| {
            scaled(more.saturating_sub(one), (steps - short) * waves, long - short)
        };
        total.ps += each(more.ps, one.ps);
        total.moved = [0, 1].map(|at| one.moved[at] + each(more.moved[at], one.moved[at]));
    }
    if waves > 1 {
        let two = run(2, short)?;
        let more = |of: u64, two: u64, one: u64| of + two.saturating_sub(one) * (waves - 1);
        total.ps = more(total.ps, two.ps, one.ps);
        total.moved = [0, 1].map(|at| more(total.moved[at], two.moved[at], one.moved[at]));
    }
    Ok(Measured { ran: total, extrapolated: true })
}

/// A tile of the result and a part of its sum.
#[derive(Clone, Copy, Debug)]
struct Task {
    batch: u64,
    start: [u64; 2],
    extent: [u64; 2],
    part: u64,
}

fn task(shape: &Shape, grid: Grid, number: u64) -> Task {
    let (down, across) = (shape.m.div_ceil(grid.tile[0]), shape.n.div_ceil(grid.tile[1]));
    let (part, number) = (number % grid.parts, number / grid.parts);
    let start = [number / across % down * grid.tile[0], number % across * grid.tile[1]];
    let extent = [grid.tile[0].min(shape.m - start[0]), grid.tile[1].min(shape.n - start[1])];
    Task { batch: number / across / down, start, extent, part }
}

fn stage(shape: &Rc<Shape>, grid: Grid, pes: u64, [waves, steps]: [u64; 2]) -> Stage {
    let shape = Rc::clone(shape);
    Rc::new(move |tl: &Tl, turn| {
        let all = grid.tasks(&shape);
        let numbers = (0..waves).map(|wave| turn + wave * pes).take_while(|number| *number < all);
        let is_turned = turned(&shape, grid);
        let items = numbers.flat_map(|number| (0..steps).map(move |step| (number, step)));
        let loads = items.map(|(number, step)| {
            let task = task(&shape, grid, number);
            // PEs begin at different blocks, so that they do not all read the same pages.
            let blocks = grid.steps(&shape);
            // If few are simulated, they are spread over all.
            let block = task.part * blocks + (step * (blocks / steps).max(1) + turn) % blocks;
            let from = block * grid.block;
            let terms = grid.block.min(shape.k.saturating_sub(from));
            let loaded = (terms > 0).then(|| load(tl, &shape, &task, [from, terms], is_turned));
            (task, step + 1 == steps, loaded)
        });
        let mut sum: Option<Tile> = None;
        for (task, is_last, loaded) in ahead(loads) {
            if let Some([left, right]) = loaded {
                sum = Some(match sum.take() {
                    Some(sum) => tl.dot_add(&left, &right, &sum),
                    None => tl.dot(&left, &right),
                });
            }
            if let Some(sum) = sum.take_if(|_| is_last) {
                finish(tl, &shape, grid, &task, &sum, is_turned);
            }
        }
    })
}

/// Returns whether the transposed product is cheaper: fewer elements are transposed in the PE.
fn turned(shape: &Shape, grid: Grid) -> bool {
    let [m, n] = grid.tile;
    let crosses = |is: bool, extent: u64| if is { extent * shape.k / grid.parts } else { 0 };
    let plain = crosses(shape.a.columns != 1 && shape.a.rows == 1, m)
        + crosses(shape.b.columns != 1 && shape.b.rows == 1, n);
    let turned = crosses(shape.a.columns == 1 && shape.a.rows != 1, m)
        + crosses(shape.b.columns == 1 && shape.b.rows != 1, n)
        + if shape.c.rows == 1 { 0 } else { m * n };
    turned < plain
}

/// Loads a block of both operands, each along its fast axis, and transposes it in the PE where the product needs it.
fn load(
    tl: &Tl,
    shape: &Shape,
    task: &Task,
    [from, terms]: [u64; 2],
    is_turned: bool,
) -> [Tile; 2] {
    let a = matrix(
        tl,
        shape,
        &shape.a,
        (0, task.batch),
        [task.start[0], from],
        [task.extent[0], terms],
        is_turned,
    );
    let b = matrix(
        tl,
        shape,
        &shape.b,
        (1, task.batch),
        [from, task.start[1]],
        [terms, task.extent[1]],
        is_turned,
    );
    let [a, b] = [factor(tl, a, shape.factors[0]), factor(tl, b, shape.factors[1])];
    if is_turned { [b, a] } else { [a, b] }
}

/// Casts a tile to the type of the matrix unit that stands for its own; types of equal size need no cast.
fn factor(tl: &Tl, tile: Tile, dtype: DType) -> Tile {
    if tile.ty().dtype == dtype {
        tile
    } else if tile.ty().dtype.size() == dtype.size() {
        tl.bitcast(&tile, dtype)
    } else {
        tl.cast(&tile, dtype)
    }
}

/// Loads a part of a matrix along its fast axis; the tile is transposed if that is not the last axis, or if it is wanted so.
fn matrix(
    tl: &Tl,
    shape: &Shape,
    of: &Matrix,
    (storage, batch): (usize, u64),
    start: [u64; 2],
    extent: [u64; 2],
    is_turned: bool,
) -> Tile {
    let offset = shape.offset(of, batch) + start[0] * of.rows + start[1] * of.columns;
    let memory = Ref::new(address(storage) + offset * of.dtype.size(), &extent, of.dtype)
        .strided(&[of.rows, of.columns]);
    let crosses = of.rows == 1 && of.columns != 1 && extent[0] > 1;
    let loaded = tl.load(&if crosses { memory.transposed() } else { memory });
    if crosses == is_turned { loaded } else { tl.trans(&loaded) }
}

/// Stores a tile of the result, or of a part of its sum.
fn finish(tl: &Tl, shape: &Shape, grid: Grid, task: &Task, sum: &Tile, is_turned: bool) {
    let Task { batch, start, extent, part } = *task;
    if grid.parts > 1 {
        let element = ((part * shape.batch() + batch) * shape.m + start[0]) * shape.n + start[1];
        let to = Ref::new(address(2) + 4 * element, &extent, DType::F32).strided(&[shape.n, 1]);
        let sum = if sum.ty().dtype == DType::F32 { sum.clone() } else { tl.cast(sum, DType::F32) };
        return tl.store(&to, &if is_turned { tl.trans(&sum) } else { sum });
    }
    let c = &shape.c;
    let offset = shape.offset(c, batch) + start[0] * c.rows + start[1] * c.columns;
    let to = Ref::new(address(2) + offset * c.dtype.size(), &extent, c.dtype)
        .strided(&[c.rows, c.columns]);
    let mut x = cast(sum.lazy(), DType::F32);
    let mut done = 0;
    if let Some(added) = &shape.added {
        let sizes = [
            if added.rows == 0 { 1 } else { extent[0] },
            if added.columns == 0 { 1 } else { extent[1] },
        ];
        let tile = matrix(tl, shape, added, (3, batch), start, sizes, is_turned);
        x = x + &cast(tile.lazy(), DType::F32);
        done = 1;
    }
    let result = value(tl, &cast(apply(x, shape.work, done), c.dtype));
    let crosses = c.rows == 1 && c.columns != 1 && extent[0] > 1;
    let result = if crosses == is_turned { result } else { tl.trans(&result) };
    tl.store(&if crosses { to.transposed() } else { to }, &result);
}
