//! K and V of the tokens of a step into the cache.

use std::rc::Rc;

use super::{Here, kernel};
use crate::kernel::Kernel;
use crate::model::cut::Cut;
use crate::tl::{Ref, Tile};

/// Turns K of each PE's tokens, and keeps K and V where they belong. Arguments: Q, K and V of the step; the
/// caches of K and V; cosines and sines; two that are not used; the layer, and where the step begins in its
/// sequences.
pub(in crate::model) fn append(cut: &Rc<Cut>) -> Kernel {
    kernel("append", cut, |here| {
        let Some((sequence, part)) = here.share() else { return };
        let (count, group) = (here.cut.unit_rows(), here.cut.spec.group());
        let first = part * count;
        let new = here.projected(sequence * here.cut.each + first, count);
        let angles = here.angles(3, first, count);
        let key = here.turned(&here.heads(&new, group, 1), &angles);
        let value = here.heads(&new, group + 1, 1);
        for (position, tile) in [(1, key), (2, value)] {
            here.keep(&here.args.tensor(position).whole(), sequence, first, &tile);
        }
    })
}

impl Here {
    /// The sequence that this PE works on in prefill, and which share of its tokens; none if there are fewer.
    pub(super) fn share(&self) -> Option<(u64, u64)> {
        let (unit, parts) = (self.unit(), self.cut.parts);
        (unit / parts < self.cut.sequences).then_some((unit / parts, unit % parts))
    }

    /// Where a token of a sequence is in the cache of a layer, and how many more are behind it there.
    pub(super) fn place(&self, sequence: u64, token: u64) -> (u64, u64) {
        let cut = &self.cut;
        let (part, rest) = (token / cut.room, token % cut.room);
        let unit = sequence * cut.parts + part;
        let (pe, cube) = (unit / cut.group_cubes, unit % cut.group_cubes);
        let pe = (self.group * cut.group_cubes + cube) * cut.pes + pe;
        let row = ((pe * cut.spec.layers + self.args.whole(6)) * cut.held) * cut.room;
        (row + rest, cut.room - rest)
    }

    /// Stores rows of tokens, some of which may be beyond the end.
    fn keep(&self, cache: &Ref, sequence: u64, first: u64, tile: &Tile) {
        let (tl, size) = (&self.tl, self.cut.spec.head_dim);
        let begin = self.args.whole(7) + first;
        let end = (begin + tile.dim(0)).min(self.cut.work.context);
        let mut token = begin;
        while token < end {
            let (row, more) = self.place(sequence, token);
            let count = more.min(end - token);
            let rows = tl.slice(tile, &[token - begin, 0, 0], &[count, 1, size]);
            tl.store(&cache.at(row * size, &[count, 1, size]), &rows);
            token += count;
        }
    }
}
