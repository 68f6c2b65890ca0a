//! Element-wise operators over contiguous tensors: each PE works on the pages that it holds.

use std::rc::Rc;

use cubeyard_kernels::ahead;
use cubeyard_tl::{Ref, Tile, Tl};

use super::Streams;
use super::pages::{Pages, Reach};
use crate::compute::pass;
use crate::copies::Copies;
use crate::cost::Measured;
use crate::error::OperatorError;
use crate::machine::{OperatorMachine, Ran, Stage, address};
use crate::nest::Nest;
use crate::steady::steady;

/// Steps that are simulated of a longer kernel.
const FEW: [u64; 2] = [6, 10];

/// An element-wise operator over pages.
struct Flat {
    pages: Pages,
    streams: Streams,
    /// Elements of each tensor that belong to a page.
    reach: Vec<Reach>,
    /// Copies of row operands in the cubes.
    copies: Vec<Option<Copies>>,
}

/// Runs an element-wise operator over contiguous tensors of this many elements.
pub(crate) fn flat(
    machine: &OperatorMachine,
    streams: Streams,
    elements: u64,
) -> Result<Measured, OperatorError> {
    let nest = Nest { sizes: vec![elements], strides: vec![vec![1]; streams.tensors.len()] };
    let reach = vec![Reach::Same; streams.tensors.len()];
    let pages = Pages::new(machine, &streams, &nest);
    run(machine, Flat { pages, copies: vec![None; reach.len()], streams, reach })
}

/// Runs an element-wise operator whose operands are contiguous, one number, one row for all rows, or a number for each row;
/// returns its operands if it is another.
pub(super) fn regular(
    machine: &OperatorMachine,
    streams: Streams,
    nest: &Nest,
) -> Result<Result<Measured, Streams>, OperatorError> {
    let pages = Pages::new(machine, &streams, nest);
    let reach: Option<Vec<_>> =
        nest.strides.iter().map(|strides| Reach::new(nest, strides)).collect();
    match reach {
        Some(reach) if pages.is_regular() => {
            let results = &reach[streams.operands..];
            if results.iter().all(|of| *of == Reach::Same) {
                let copies = copies(machine, &streams, &reach, &pages);
                return run(machine, Flat { pages, streams, reach, copies }).map(Ok);
            }
            Ok(Err(streams))
        }
        _ => Ok(Err(streams)),
    }
}

/// Returns copies of the rows that all PEs read, if they are more than some bursts.
fn copies(
    machine: &OperatorMachine,
    streams: &Streams,
    reach: &[Reach],
    pages: &Pages,
) -> Vec<Option<Copies>> {
    let busy = pages.steps() > 0 && pages.pages() >= machine.pes();
    let copy = |(at, of): (usize, &Reach)| {
        let bytes = pages.row() * streams.tensors[at].dtype.size();
        let is_worth = *of == Reach::Row && busy && bytes >= 1024;
        is_worth
            .then(|| Copies::new(machine, [streams.places[at], streams.tensors.len() + at], bytes))
    };
    reach.iter().enumerate().map(copy).collect()
}

fn run(machine: &OperatorMachine, flat: Flat) -> Result<Measured, OperatorError> {
    let mut storages = flat.streams.storages();
    storages.extend(flat.copies.iter().map(|copies| copies.map_or(1, |copies| copies.storage())));
    let made: Vec<_> = flat.copies.iter().flatten().map(|copies| copies.stage()).collect();
    let steps = flat.pages.steps();
    let sizes: Vec<_> = flat.streams.tensors.iter().map(|tensor| tensor.dtype.size()).collect();
    // All that a PE touches is its own, so PEs do not meet, and the first one has the most pages.
    let is_local = sizes.windows(2).all(|pair| pair[0] == pair[1])
        && flat.reach.iter().all(|of| *of == Reach::Same);
    let (last, flat) = (flat.pages.last(), Rc::new(flat));
    let first = Measured { ran: machine.run("copies", &storages, &made)?, extrapolated: false };
    let run = |steps: u64| -> Result<Ran, OperatorError> {
        let stage = stage(&flat, steps, move |turn| !is_local || turn == 0 || turn == last);
        machine.run("pointwise pages", &storages, &[stage])
    };
    Ok(first.then(steady(steps, machine.few(FEW), run)?))
}

impl Flat {
    /// Loads what all tiles of a PE share of an operand.
    fn held(&self, tl: &Tl, turn: u64, at: usize) -> Option<Tile> {
        let (tensor, storage) = (&self.streams.tensors[at], self.streams.places[at]);
        let size = tensor.dtype.size();
        match self.reach[at] {
            Reach::One => Some(tl.load(&Ref::new(address(storage), &[1, 1, 1], tensor.dtype))),
            Reach::Row => {
                let [first, length] = self.pages.part(turn);
                let from = match &self.copies[at] {
                    Some(copies) => copies.address(turn, first * size),
                    None => address(storage) + first * size,
                };
                Some(tl.load(&Ref::new(from, &[1, 1, length], tensor.dtype)))
            }
            Reach::Same | Reach::Number => None,
        }
    }

    fn reference(&self, at: usize, tile: [u64; 3]) -> Ref {
        let (tensor, storage) = (&self.streams.tensors[at], self.streams.places[at]);
        let (first, shape, strides) = self.pages.view(tile, self.reach[at] == Reach::Number);
        Ref::new(address(storage) + first * tensor.dtype.size(), &shape, tensor.dtype)
            .strided(&strides)
    }
}

fn stage(flat: &Rc<Flat>, steps: u64, is_active: impl Fn(u64) -> bool + 'static) -> Stage {
    let flat = Rc::clone(flat);
    Rc::new(move |tl: &Tl, turn| {
        let tiles = flat.pages.tiles(turn, steps);
        if !is_active(turn) || tiles.is_empty() {
            return;
        }
        let operands = flat.streams.operands;
        let held: Vec<_> = (0..operands).map(|at| flat.held(tl, turn, at)).collect();
        let loads = tiles.into_iter().map(|tile| {
            let load =
                |at: usize| held[at].clone().unwrap_or_else(|| tl.load(&flat.reference(at, tile)));
            (tile, (0..operands).map(load).collect::<Vec<_>>())
        });
        let results: Vec<_> =
            flat.streams.tensors[operands..].iter().map(|tensor| tensor.dtype).collect();
        for (tile, loaded) in ahead(loads) {
            let (_, shape, _) = flat.pages.view(tile, false);
            let done = pass(tl, &loaded, &shape, flat.streams.work, &results);
            for (at, done) in (operands..).zip(done) {
                tl.store(&flat.reference(at, tile), &done);
            }
        }
    })
}
