//! Attention of one new token of each sequence over a cache that the PEs of a group share.

use super::Here;
use crate::cut::Cut;
use cubeyard_kernels::SoftmaxSum;
use cubeyard_tl::{Ref, Tile};

/// Tokens per block of K and V.
const BLOCK: u64 = 512;

/// Rotates Q and K of new tokens, stores K and V, and computes the attention of each PE's sequences, or of its part of
/// a sequence. Each cube then receives its heads of all results. Arguments: Q, K and V of the step; the caches of K and
/// V; cosines and sines; the output, and the logarithms of its weights; the layer; one unused argument; the weights of
/// the head norms, if there are any.
pub(super) fn decode(here: &Here) {
    for turn in 0..here.cut.held {
        let attended = here.sequence(here.unit(), turn).map(|at| here.attend(at, turn));
        let (values, weights) = attended.unzip();
        let has = |unit| u64::from(here.sequence(unit, turn).is_some());
        here.deal(&here.args.tensor(4).local(), turn, values.as_ref(), has);
        if here.cut.is_joined() {
            here.deal(&here.args.tensor(5).local(), turn, weights.as_ref(), has);
        }
    }
}

impl Here {
    /// Returns the sequence of a unit, and the unit's part of it; `None` if the unit has no sequence.
    fn sequence(&self, unit: u64, turn: u64) -> Option<(u64, u64)> {
        let Cut { parts, held, work, .. } = *self.cut;
        let at = if parts > 1 { (unit / parts, unit % parts) } else { (unit * held + turn, 0) };
        (at.0 < work.batch).then_some(at)
    }

    /// Returns the first block of K and of V; empty if the block contains the new token, which is not stored yet.
    pub(super) fn first_blocks(&self) -> Vec<Ref> {
        let (cut, size) = (&self.cut, self.cut.spec.head_dim);
        let row = self.args.whole(6) * cut.held * cut.heads.slots * cut.room;
        let first =
            |position: usize| self.args.tensor(position).local().at(row * size, &[BLOCK, size]);
        let tokens = self.sequence(self.unit(), 0).map(|(_, part)| cut.part_tokens(part));
        tokens
            .filter(|tokens| *tokens > BLOCK)
            .map(|_| vec![first(1), first(2)])
            .unwrap_or_default()
    }

    /// Computes the attention of a part of a sequence: one row of heads, and the logarithms of their weights.
    fn attend(&self, (sequence, part): (u64, u64), turn: u64) -> (Tile, Tile) {
        let new = self.projected(sequence, 1);
        let angles = self.angles(3, 0, 1);
        let turn = self.args.whole(6) * self.cut.held + turn;
        let slots = self.cut.heads.slots;
        let of_slot = |slot| {
            let heads = self.slot_heads(&new, slot);
            self.attend_slot(&heads, &angles, part, (turn * slots + slot) * self.cut.room)
        };
        let (values, weights): (Vec<_>, Vec<_>) = (0..slots).map(of_slot).unzip();
        (self.concat(values), self.concat(weights))
    }

    /// Computes the attention of the heads of a slot, whose cache begins at the given row.
    fn attend_slot(
        &self,
        [query, key, value]: &[Tile; 3],
        angles: &[Tile; 2],
        part: u64,
        row: u64,
    ) -> (Tile, Tile) {
        let (tl, cut) = (&self.tl, &self.cut);
        let (group, size) = (cut.heads.queries, cut.spec.head_dim);
        let cache = [1, 2].map(|position| self.args.tensor(position).local());
        let tokens = cut.part_tokens(part);
        if part * cut.stretch + tokens == cut.seen() {
            let last = (row + tokens - 1) * size;
            let key = self.turned(&self.key_norm(key), angles);
            let [key, value] = [&key, value].map(|tile| self.cached(tile));
            tl.store(&cache[0].at(last, &[1, 1, size]), &key);
            tl.store(&cache[1].at(last, &[1, 1, size]), &value);
        }
        let query = self.cached(&self.turned(&self.query_norm(query), angles));
        let query = tl.trans(&tl.reshape(&query, &[group, size]));
        let mut sum = SoftmaxSum::new(tl, group, size);
        for start in (0..tokens).step_by(usize::try_from(BLOCK).expect("it is small")) {
            let shape = [BLOCK.min(tokens - start), size];
            let [key, value] =
                cache.each_ref().map(|all| self.taken(&all.at((row + start) * size, &shape)));
            // The scores are transposed rather than the keys, because they have few rows.
            sum.add(tl, &tl.trans(&tl.dot(&key, &query)).lazy(), &value);
        }
        let values = tl.reshape(&sum.result(tl, cut.work.dtype), &[1, group, size]);
        (values, tl.reshape(&sum.logarithm(tl), &[1, group, 1]))
    }
}
