//! Attention of many new tokens of each sequence over a cache that the PEs of a group share.

use std::ops::Range;

use cubeyard_runtime::dtype::DType;

use super::Here;
use crate::spec::Window;
use cubeyard_kernels::{NEVER, SoftmaxSum, ahead};
use cubeyard_tl::{Lazy, Tile};

/// Tokens per block of K and V.
const BLOCK: u64 = 256;

/// Computes the attention of each PE's tokens over their sequence up to each token, whichever PE stores it. Each cube
/// then receives its heads of all results. Arguments: Q, K and V of the step; the caches of K and V; cosines and sines;
/// the output; one unused argument; the layer, and the position of the step in its sequences; the weights of the head
/// norms, if there are any.
pub(super) fn prefill(here: &Here) {
    let attended = here.share().map(|(sequence, part)| here.look_back(sequence, part));
    let busy = here.cut.sequences * here.cut.parts;
    let has = |unit| if unit < busy { here.cut.unit_rows() } else { 0 };
    here.deal(&here.args.tensor(4).local(), 0, attended.as_ref(), has);
}

impl Here {
    /// Computes the attention of a share of a sequence's new tokens.
    fn look_back(&self, sequence: u64, part: u64) -> Tile {
        let count = self.cut.unit_rows();
        let new = self.projected(sequence * self.cut.each + part * count, count);
        let angles = self.angles(3, part * count, count);
        let of_slot = |slot| {
            let [query, ..] = self.slot_heads(&new, slot);
            let query = self.cached(&self.turned(&self.query_norm(&query), &angles));
            self.look_back_in(&query, [sequence, slot], part)
        };
        self.concat((0..self.cut.heads.slots).map(of_slot).collect())
    }

    /// Computes the attention of the heads of a slot.
    fn look_back_in(&self, query: &Tile, of: [u64; 2], part: u64) -> Tile {
        let (tl, cut) = (&self.tl, &self.cut);
        let (group, size, count) = (cut.heads.queries, cut.spec.head_dim, cut.unit_rows());
        let query = tl.reshape(query, &[count * group, size]);
        let first = self.args.whole(7) + part * count;
        let seen = (first + count).min(cut.work.context);
        let mut sum = SoftmaxSum::new(tl, count * group, size);
        // Padding begins after the last token, and attends to it.
        let start = cut.first_seen(first).min(seen - 1);
        let blocks = self.blocks(of, start..seen).into_iter().map(|(token, tokens)| {
            let row = self.place(of, token).0;
            let load = |position: usize| {
                let cache = self.args.tensor(position).whole();
                tl.load(&cache.at(row * size, &[tokens, size]))
            };
            let (key, value) = (load(1), load(2));
            let scores = tl.dot(&query, &tl.trans(&key));
            (self.hide(&scores, first, token), value)
        });
        // The scores of a block are computed before the softmax of the previous block.
        ahead(blocks).for_each(|(scores, values)| sum.add(tl, &scores, &values));
        tl.reshape(&sum.result(tl, cut.work.dtype), &[count, group, size])
    }

    /// Returns the first token and the length of each block of some tokens of a sequence; each block is in one PE's
    /// memory. PEs begin at different blocks, so that not all of them read from one PE.
    fn blocks(&self, of: [u64; 2], tokens: Range<u64>) -> Vec<(u64, u64)> {
        let mut blocks = Vec::new();
        let mut token = tokens.start;
        while token < tokens.end {
            let count = self.place(of, token).1.min(BLOCK).min(tokens.end - token);
            blocks.push((token, count));
            token += count;
        }
        let shift = self.unit() % (blocks.len() as u64).max(1);
        blocks.rotate_left(usize::try_from(shift).expect("fewer than there are blocks"));
        blocks
    }

    /// Masks the scores of later tokens, and of tokens before the window; each row is one head of one token.
    fn hide(&self, scores: &Tile, query: u64, key: u64) -> Lazy {
        let (tl, group) = (&self.tl, self.cut.heads.queries);
        let [rows, columns] = [scores.dim(0), scores.dim(1)];
        let is_before = key + columns <= query + 1;
        let is_in_window = self.cut.first_seen(query + rows / group - 1) <= key;
        if is_before && is_in_window {
            return scores.lazy();
        }
        let tokens = tl.floor(&(&tl.arange(0.5, rows, DType::F32) * (1.0 / group as f64)));
        let tokens = tl.reshape(&(&tokens + query as f64), &[rows, 1]);
        let keys = tl.reshape(&tl.arange(key, columns, DType::F32), &[1, columns]);
        let mut hidden = scores.lazy();
        if !is_before {
            hidden = tokens.lazy().ge(&keys).select(scores, NEVER);
        }
        if let Some(window) = self.cut.window.filter(|_| !is_in_window) {
            hidden = keys.lazy().ge(&self.first_keys(&tokens, window)).select(&hidden, NEVER);
        }
        hidden
    }

    /// Returns the first position to which each token attends.
    fn first_keys(&self, tokens: &Tile, window: Window) -> Tile {
        match window {
            Window::Sliding(count) => tokens - (count as f64 - 1.0),
            Window::Chunked(count) => {
                // The middle of a token is never at the boundary of a chunk, whichever way its product is rounded.
                let chunks = &(tokens + 0.5) * (1.0 / count as f64);
                &self.tl.floor(&chunks) * count as f64
            }
        }
    }
}
