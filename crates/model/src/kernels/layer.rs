//! Layer in one launch: PEs synchronise by messages, and load weights of the next part before they wait.

use std::rc::Rc;

use cubeyard_runtime::dtype::DType;

use super::{Here, body};
use crate::cut::{Cut, Phase};
use crate::part::StepPart;
use crate::wiring::{to_cube, to_pe};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Ref, Tile};

/// Number of bytes that are loaded before their part begins. Loading them takes as long as the end of the previous
/// part; more would delay the tokens that PEs read from each other.
const AHEAD: u64 = 128 << 10;

/// Runs the parts of a layer in order, and `all_reduce` where cubes add up their sums. Arguments: the arguments of each
/// part, whose numbers are given by `counts`.
pub(crate) fn layer(cut: &Rc<Cut>, all_reduce: Kernel, counts: Vec<usize>) -> Kernel {
    let (name, cut) = (format!("layer of {}", cut.label()), Rc::clone(cut));
    let counts: Rc<[usize]> = counts.into();
    Kernel::new(&name, move |tl, args| {
        let here = Here::new(tl, args, &cut);
        Box::pin(run(here, all_reduce.clone(), Rc::clone(&counts)))
    })
}

async fn run(mut here: Here, all_reduce: Kernel, counts: Rc<[usize]>) {
    let (parts, all) = (StepPart::layer(&here.cut), here.args.clone());
    let mut first = 0;
    for (place, (&part, count)) in parts.iter().zip(counts.iter()).enumerate() {
        here.args = all.skip(first);
        if part == StepPart::AllReduce {
            all_reduce.start(here.tl.clone(), here.args.clone()).await;
        } else {
            here.meet(part);
            body(part, here.cut.work.phase)(&here);
        }
        first += count;
        here.args = all.skip(first);
        parts.get(place + 1).into_iter().for_each(|next| here.load_ahead(*next));
    }
}

impl Here {
    /// Waits until the results that a part loads have been stored by the PEs that compute them.
    fn meet(&self, part: StepPart) {
        // A norm uses only this PE's own tokens.
        if matches!(part, StepPart::Norm | StepPart::PostNorm) {
            return;
        }
        let others: Vec<_> = (0..self.cut.pes).filter(|pe| *pe != self.pe).map(to_pe).collect();
        self.exchange(&others);
        if (part, self.cut.work.phase) == (StepPart::Attention, Phase::Prefill) {
            // The cache belongs to the group: one PE of each cube speaks for all PEs of its cube.
            let cubes: Vec<_> = self.others().map(|(cube, _)| to_cube(cube)).collect();
            self.exchange(&cubes);
        }
    }

    /// Signals to other PEs that all results so far are stored, and waits for the same signal from each of them.
    fn exchange(&self, ports: &[Port]) {
        let tl = &self.tl;
        tl.fence();
        let sign = tl.full(&[1], 0.0, DType::U8);
        ports.iter().for_each(|&port| tl.send(port, &sign));
        ports.iter().for_each(|&port| drop(tl.recv(port, &[1], DType::U8)));
    }

    /// Begins the first loads of the next part, of data that no part stores. Its arguments are already selected.
    fn load_ahead(&self, next: StepPart) {
        let mut bytes = 0;
        for from in self.constants(next) {
            if bytes >= AHEAD {
                return;
            }
            bytes += from.ty().nbytes();
            self.ahead.borrow_mut().push_back((from.address(), self.tl.load(&from)));
        }
    }

    /// Returns the weights or the old part of the cache that a part uses, in load order.
    fn constants(&self, part: StepPart) -> Vec<Ref> {
        let cut = &self.cut;
        match (part, cut.work.phase) {
            (StepPart::Qkv, _) => self.column_weights(self.args.whole(4), cut.qkv()),
            (StepPart::GateUp, _) => self.gate_up_constants(),
            (StepPart::Output, _) => self.panels(cut.attended(), self.args.whole(5)),
            (StepPart::Down, _) if cut.routing.is_none() => {
                self.panels(cut.inner() * cut.pes, self.args.whole(5))
            }
            (StepPart::Attention, Phase::Decode) => self.first_blocks(),
            _ => Vec::new(),
        }
    }

    /// Returns this PE's weights of gate and up: for the layer, or for the first of its experts.
    fn gate_up_constants(&self) -> Vec<Ref> {
        let (cut, layer) = (&self.cut, self.args.whole(4));
        let first = if cut.routing.is_none() {
            Some(layer)
        } else {
            let hits = self.gate_up_hits();
            hits.first().map(|hit| layer * cut.matrices() + hit.matrix)
        };
        let width = 2 * cut.inner() / cut.packed();
        first.map_or_else(Vec::new, |matrix| self.column_weights(matrix, width))
    }

    /// Loads a tile, unless it was loaded ahead.
    #[track_caller]
    pub(super) fn taken(&self, from: &Ref) -> Tile {
        let ahead = self.ahead.borrow_mut().pop_front();
        let Some((address, tile)) = ahead else { return self.tl.load(from) };
        assert_eq!(address, from.address(), "tiles are used in the order in which they are loaded");
        tile
    }
}
