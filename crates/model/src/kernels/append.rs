//! Appends K and V of the tokens of a step to the cache.

use super::Here;
use cubeyard_tl::{Ref, Tile};

/// Rotates K of each PE's tokens, and stores K and V in the cache. Arguments: Q, K and V of the step; the caches of K
/// and V; cosines and sines; two unused arguments; the layer, and the position of the step in its sequences; the
/// weights of the head norms, if there are any.
pub(super) fn append(here: &Here) {
    let Some((sequence, part)) = here.share() else { return };
    let count = here.cut.unit_rows();
    let first = part * count;
    let new = here.projected(sequence * here.cut.each + first, count);
    let angles = here.angles(3, first, count);
    for slot in 0..here.cut.heads.slots {
        let [_, key, value] = here.slot_heads(&new, slot);
        let key = here.turned(&here.key_norm(&key), &angles);
        for (position, tile) in [(1, key), (2, value)] {
            let cache = here.args.tensor(position).whole();
            here.keep(&cache, [sequence, slot], first, &here.cached(&tile));
        }
    }
}

impl Here {
    /// Returns the sequence of this PE in prefill, and the PE's share of its tokens; `None`
    /// if the PE has no sequence.
    pub(super) fn share(&self) -> Option<(u64, u64)> {
        let (unit, parts) = (self.unit(), self.cut.parts);
        (unit / parts < self.cut.sequences).then_some((unit / parts, unit % parts))
    }

    /// Converts Q, K or V to the type of the caches.
    #[track_caller]
    pub(super) fn cached(&self, tile: &Tile) -> Tile {
        self.cast(tile, self.cut.work.kv_type())
    }

    /// Returns the row of a token in a slot's cache for the layer, and the number of rows left from there. The cache of
    /// a layer with a window is a ring.
    pub(super) fn place(&self, [sequence, slot]: [u64; 2], token: u64) -> (u64, u64) {
        let cut = &self.cut;
        let token = token % (cut.parts * cut.room);
        let (part, rest) = (token / cut.room, token % cut.room);
        let unit = sequence * cut.parts + part;
        let (pe, cube) = (unit / cut.group_cubes, unit % cut.group_cubes);
        let pe = (self.group * cut.group_cubes + cube) * cut.pes + pe;
        let layer = (pe * cut.layers + self.args.whole(6)) * cut.held;
        let row = (layer * cut.heads.slots + slot) * cut.room;
        (row + rest, cut.room - rest)
    }

    /// Stores rows of tokens, ignoring rows beyond the end of the context.
    fn keep(&self, cache: &Ref, of: [u64; 2], first: u64, tile: &Tile) {
        let (tl, size) = (&self.tl, self.cut.spec.head_dim);
        let begin = self.args.whole(7) + first;
        let end = (begin + tile.dim(0)).min(self.cut.work.context);
        let mut token = begin;
        while token < end {
            let (row, more) = self.place(of, token);
            let count = more.min(end - token);
            let rows = tl.slice(tile, &[token - begin, 0, 0], &[count, 1, size]);
            tl.store(&cache.at(row * size, &[count, 1, size]), &rows);
            token += count;
        }
    }
}
