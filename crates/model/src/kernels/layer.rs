//! A layer in one launch: PEs wait for each other by messages, and load weights of the next part before they do.

use std::rc::Rc;

use cubeyard_runtime::dtype::DType;

use super::{Here, body};
use crate::cut::{Cut, Phase};
use crate::part::StepPart;
use crate::wiring::{to_cube, to_pe};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::{Port, Ref, Tile};

/// Bytes that are loaded before their part begins. They take as long as the end of the part before; more would delay the
/// tokens that PEs read from each other.
const AHEAD: u64 = 128 << 10;

/// Runs the parts of a layer, one after the other, and `all_reduce` where cubes add up their sums. Arguments: those of each
/// part, whose numbers are `counts`.
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
    /// Waits until the PEs of which a part loads results have stored them.
    fn meet(&self, part: StepPart) {
        // The tokens of a norm are this PE's own.
        if matches!(part, StepPart::Norm | StepPart::PostNorm) {
            return;
        }
        let others: Vec<_> = (0..self.cut.pes).filter(|pe| *pe != self.pe).map(to_pe).collect();
        self.exchange(&others);
        if (part, self.cut.work.phase) == (StepPart::Attention, Phase::Prefill) {
            // The cache is that of the group: a PE of each cube knows of all PEs of its own.
            let cubes: Vec<_> = self.others().map(|(cube, _)| to_cube(cube)).collect();
            self.exchange(&cubes);
        }
    }

    /// Tells PEs that everything so far is stored, and waits until they say so, too.
    fn exchange(&self, ports: &[Port]) {
        let tl = &self.tl;
        tl.fence();
        let sign = tl.full(&[1], 0.0, DType::U8);
        ports.iter().for_each(|&port| tl.send(port, &sign));
        ports.iter().for_each(|&port| drop(tl.recv(port, &[1], DType::U8)));
    }

    /// Begins to load what the next part loads first and no other part stores. The arguments are those of the next part.
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

    /// Returns the weights or the old part of the cache that a part uses, in the order of its loads.
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

    /// Returns the weights of gate and up of this PE: of the layer, or of the first of its experts.
    fn gate_up_constants(&self) -> Vec<Ref> {
        let (cut, layer) = (&self.cut, self.args.whole(4));
        let first = if cut.routing.is_none() {
            Some(layer)
        } else {
            let hits = self.gate_up_hits();
            hits.first().map(|hit| layer * cut.matrices() + hit.matrix)
        };
        first.map_or_else(Vec::new, |matrix| self.column_weights(matrix, 2 * cut.inner()))
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
