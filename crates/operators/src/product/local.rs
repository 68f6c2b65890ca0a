//! Products of few rows with a large matrix: each PE multiplies the pages of the matrix that it holds.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Ref, Tile, Tl};

use super::Shape;
use crate::compute::{apply, cast};
use crate::copies::Copies;
use crate::cost::Measured;
use crate::error::OperatorError;
use crate::machine::{OperatorMachine, Stage, address};
use crate::steady::steady;

/// Most rows of the small factor, with the large one by columns or by rows.
const MOST: [u64; 2] = [128, 16];

/// Pages of a tile.
const TILE: u64 = 32;

/// Tiles that are simulated of a longer kernel.
const FEW: [u64; 2] = [6, 10];

/// Storages: the factors, the result, copies of the small factor, and partial sums.
const STORAGES: [usize; 5] = [0, 1, 2, 3, 4];

/// Pages of the large factor.
#[derive(Clone, Copy, Debug)]
struct Local {
    m: u64,
    /// Elements of a row of the large factor in memory, and its rows.
    length: u64,
    height: u64,
    /// Whether terms of a sum are neighbours in memory.
    is_by_terms: bool,
    /// Elements of a page.
    page: u64,
    pes: u64,
    small: DType,
    large: DType,
}

impl Local {
    /// Returns the pages, if the matrix is contiguous and its rows are multiples or parts of pages.
    fn new(machine: &OperatorMachine, shape: &Shape) -> Option<Self> {
        let (a, b) = (&shape.a, &shape.b);
        let is_by_terms = b.rows == 1 && b.columns == shape.k;
        let [length, height] = if is_by_terms { [shape.k, shape.n] } else { [shape.n, shape.k] };
        let page = machine.page() / b.dtype.size();
        let is_plain = is_by_terms || b.columns == 1 && b.rows == shape.n;
        let is_regular = length.is_multiple_of(page)
            || page.is_multiple_of(length) && height.is_multiple_of(page / length);
        let is_dense =
            a.columns == 1 && (a.rows == shape.k || shape.m == 1) && shape.added.is_none();
        let few = shape.m <= MOST[usize::from(!is_by_terms)] && shape.batch() == 1;
        let fits = shape.m * length.max(shape.k) * 8 < machine.scratch() / 4;
        let is_large = shape.k * shape.n / page >= machine.pes();
        let this = Self {
            m: shape.m,
            length,
            height,
            is_by_terms,
            page,
            pes: machine.pes(),
            small: a.dtype,
            large: b.dtype,
        };
        (is_plain && is_regular && is_dense && few && fits && is_large).then_some(this)
    }

    fn page_bytes(&self) -> u64 {
        self.page * self.large.size()
    }

    /// Returns the pages of a row; 1 if a page has several.
    fn parts(&self) -> u64 {
        (self.length / self.page).max(1)
    }

    /// Returns the rounds after which a PE's pages are of the same part again.
    fn period(&self) -> u64 {
        let (mut a, mut b) = (self.parts(), self.pes);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        self.parts() / a
    }

    fn pages(&self) -> u64 {
        self.length * self.height / self.page
    }

    /// Returns first page and count for each tile of a PE, with whether it is the first or last of its part.
    fn tiles(&self, turn: u64, steps: u64) -> Vec<(u64, u64, [bool; 2])> {
        let held = self.pages().saturating_sub(turn).div_ceil(self.pes);
        let mut tiles = Vec::new();
        for class in 0..self.period().min(held) {
            let count = (held - class).div_ceil(self.period());
            for start in (0..count).step_by(usize::try_from(TILE).unwrap_or(1)) {
                let round = class + start * self.period();
                let ends = [start == 0, start + TILE >= count];
                tiles.push((turn + round * self.pes, TILE.min(count - start), ends));
            }
        }
        let most = usize::try_from(steps).unwrap_or(usize::MAX);
        if tiles.len() > most {
            tiles.truncate(most);
            tiles.last_mut().into_iter().for_each(|(_, _, ends)| ends[1] = true);
        }
        tiles
    }

    fn steps(&self) -> u64 {
        let held = self.pages().div_ceil(self.pes);
        let class = |class: u64| (held - class).div_ceil(self.period()).div_ceil(TILE);
        (0..self.period().min(held)).map(class).sum()
    }

    /// Returns the partial sums of a PE.
    fn sums(&self) -> u64 {
        if self.is_by_terms {
            self.pages().div_ceil(self.pes) * (self.page / self.length).max(1) * self.m
        } else {
            self.period() * self.m * self.page
        }
    }
}

impl OperatorMachine {
    /// Returns kernel and time of a product in which each PE multiplies its own pages; `None` if the matrices do not allow it.
    pub(super) fn product_local(
        &self,
        shape: &Shape,
    ) -> Result<Option<(String, Measured)>, OperatorError> {
        let Some(local) = Local::new(self, shape) else { return Ok(None) };
        let copies =
            Copies::new(self, [STORAGES[0], STORAGES[3]], shape.m * shape.k * shape.a.dtype.size());
        let spread = local.sums() * 4;
        let rounds = spread.div_ceil(self.page());
        let storages = [
            shape.a.storage,
            shape.b.storage,
            shape.c.storage,
            copies.storage(),
            rounds * self.page() * self.pes(),
        ];
        let name = format!("product of local pages, {} rows", shape.m);
        let made =
            Measured { ran: self.run(&name, &storages, &[copies.stage()])?, extrapolated: false };
        let run = |steps| self.run(&name, &storages, &[stage(local, copies, steps)]);
        let first = steady(local.steps(), self.few(FEW), run)?;
        let shared = Rc::new(shape.clone());
        let last = self.run(&name, &storages, &[sums(local, &shared, self.page())])?;
        let last = Measured { ran: last, extrapolated: false };
        Ok(Some((name.clone(), made.then(first).then(last))))
    }
}

/// Multiplies the pages of a PE, and stores partial sums in its own memory.
fn stage(local: Local, copies: Copies, steps: u64) -> Stage {
    Rc::new(move |tl: &Tl, turn| {
        let mut held: Option<(u64, Tile)> = None;
        let loads = local.tiles(turn, steps).into_iter().map(|(first, count, ends)| {
            let part = first % local.parts();
            let small = match held.take().filter(|(known, _)| *known == part) {
                Some(kept) => kept,
                None => (part, small(tl, &local, &copies, turn, part)),
            };
            held = Some(small.clone());
            let stride = local.period() * local.pes * local.page;
            let from = address(STORAGES[1]) + first * local.page * local.large.size();
            let tile =
                tl.load(&Ref::new(from, &[count, local.page], local.large).strided(&[stride, 1]));
            (small.1, tile, ends)
        });
        let (mut sum, mut stored): (Option<Tile>, u64) = (None, 0);
        for (small, tile, ends) in ahead(loads) {
            let done = if local.is_by_terms {
                let rows = tile.dim(0) * (local.page / local.length).max(1);
                Some(tl.dot(&tl.reshape(&tile, &[rows, local.page.min(local.length)]), &small))
            } else {
                let rows = tile.dim(0) * (local.page / local.length).max(1);
                let tile = tl.reshape(&tile, &[rows, local.page.min(local.length)]);
                let terms = tl.slice(&small, &[0, 0], &[local.m, rows.min(small.dim(1))]);
                let before = sum.take().filter(|_| !ends[0]);
                let now = before
                    .map_or_else(|| tl.dot(&terms, &tile), |sum| tl.dot_add(&terms, &tile, &sum));
                if ends[1] { Some(now) } else { sum.replace(now).and(None) }
            };
            if let Some(done) = done {
                stored = keep(tl, &local, turn, stored, &done);
            }
        }
    })
}

/// Loads the terms that meet the pages of a part: as a column for each row, or whole.
fn small(tl: &Tl, local: &Local, copies: &Copies, turn: u64, part: u64) -> Tile {
    let size = local.small.size();
    let terms = if local.is_by_terms { local.page.min(local.length) } else { local.height };
    let row = if local.is_by_terms { local.length } else { local.height };
    let first = if local.is_by_terms { part * terms } else { 0 };
    let mut loaded = Vec::new();
    for at in 0..local.m {
        let mut done = 0;
        while done < terms {
            let byte = (at * row + first + done) * size;
            // A copy is contiguous within a page.
            let length =
                (terms - done).min((local.page_bytes() - byte % local.page_bytes()) / size);
            loaded.push(tl.load(&Ref::new(copies.address(turn, byte), &[1, length], local.small)));
            done += length;
        }
    }
    // There is no load into a part of a tile: if there are several, a tile of zeros stands for what they form.
    let whole = match &loaded[..] {
        [tile] => tile.clone(),
        _ => tl.zeros(&[local.m, terms], local.small),
    };
    if !local.is_by_terms {
        return whole;
    }
    if local.m == 1 { tl.reshape(&whole, &[terms, 1]) } else { tl.trans(&whole) }
}

/// Stores partial sums in the pages of a PE, from a number of sums on; returns the next number.
fn keep(tl: &Tl, local: &Local, turn: u64, from: u64, sums: &Tile) -> u64 {
    let count = sums.ty().elements();
    let page = local.page * local.large.size() / 4;
    let sums = if sums.ty().dtype == DType::F32 { sums.clone() } else { tl.cast(sums, DType::F32) };
    let flat = tl.reshape(&sums, &[count]);
    // A tile of more than a page lies in pages that a round apart.
    let rows = count.div_ceil(page);
    let to = |start: u64| {
        let (round, into) = (start / page, start % page);
        address(STORAGES[4]) + 4 * ((round * local.pes + turn) * page + into)
    };
    let start = if from % page + count > page { from.next_multiple_of(page) } else { from };
    if rows == 1 {
        tl.store(&Ref::new(to(start), &[count], DType::F32), &flat);
    } else if count.is_multiple_of(page) {
        let shape = [rows, page];
        tl.store(
            &Ref::new(to(start), &shape, DType::F32).strided(&[local.pes * page, 1]),
            &tl.reshape(&flat, &shape),
        );
    } else {
        tl.store(&Ref::new(to(start), &[page], DType::F32), &tl.slice(&flat, &[0], &[page]));
    }
    start + count
}

/// Adds the partial sums of all PEs: each PE some neighbouring elements of the result.
fn sums(local: Local, shape: &Rc<Shape>, page: u64) -> Stage {
    let shape = Rc::clone(shape);
    Rc::new(move |tl: &Tl, turn| {
        let each = local.sums();
        // Pieces of at least 32 bytes.
        let wide = each.div_ceil(local.pes).max(8).min(each);
        let first = turn * wide;
        if first >= each {
            return;
        }
        let wide = wide.min(each - first).min(page / 4);
        let from = address(STORAGES[4])
            + 4 * (first / (page / 4) * local.pes * (page / 4) + first % (page / 4)).min(
                (each.div_ceil(page / 4) * local.pes - local.pes) * (page / 4) + page / 4 - wide,
            );
        let tile = tl.load(&Ref::new(from, &[local.pes, wide], DType::F32).strided(&[page / 4, 1]));
        let all = shape.m * shape.n;
        let outs = all.div_ceil(each.div_ceil(wide));
        let start = (turn * outs).min(all.saturating_sub(1));
        let outs = outs.min(all - start).min(local.pes * wide).max(1);
        let groups = (local.pes * wide / outs).max(1);
        let used = tl.slice(&tl.reshape(&tile, &[local.pes * wide]), &[0], &[groups * outs]);
        let sum = tl.reshape(&used, &[groups, outs]).lazy().sum_keep(0);
        let done = tl.eval(&cast(apply(sum, shape.work, 0), shape.c.dtype));
        let to = address(STORAGES[2]) + start * shape.c.dtype.size();
        tl.store(&Ref::new(to, &[1, outs], shape.c.dtype), &done);
    })
}
