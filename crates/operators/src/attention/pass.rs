//! A pass over blocks of queries and keys.

use std::rc::Rc;

use cubeyard_kernels::{SoftmaxSum, ahead};
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::{Ref, Tile, Tl};

use crate::compute::cast;
use crate::error::{OperatorError, refused};
use crate::machine::{Stage, address};
use crate::tensor::Tensor;

/// Sizes of attention.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    batch: u64,
    /// Heads of queries, and of keys.
    counts: [u64; 2],
    /// Queries and keys of a head.
    tokens: [u64; 2],
    pub(super) d: u64,
    causal: bool,
}

impl Heads {
    pub(super) fn new(operands: &[Tensor], causal: bool) -> Result<Self, OperatorError> {
        let mut shapes = Vec::new();
        for (at, tensor) in operands.iter().enumerate().take(5) {
            let &[batch, heads, tokens, d] = &tensor.shape[..] else {
                return refused(format!(
                    "operand {at}: shape {:?}, expected 4 dimensions",
                    tensor.shape
                ));
            };
            shapes.push([batch, heads, tokens, d]);
        }
        let ([q, k], v) = ([shapes[0], shapes[1]], shapes[2]);
        if k[0] != q[0] || k[3] != q[3] || q[1] % k[1] != 0 {
            return refused(format!("operand 1: shape {k:?} does not fit operand 0, {q:?}"));
        }
        if v[..3] != k[..3] || v[3] != k[3] {
            return refused(format!("operand 2: shape {v:?}, expected that of operand 1, {k:?}"));
        }
        Ok(Self { batch: q[0], counts: [q[1], k[1]], tokens: [q[2], k[2]], d: q[3], causal })
    }

    /// Returns the blocks that are simulated of a longer kernel. PEs of a causal pass begin with blocks of unequal length, so
    /// more are needed until they are mixed.
    pub(super) fn few(&self) -> [u64; 2] {
        if self.causal { [8, 14] } else { [3, 6] }
    }

    /// Returns the pairs of queries and keys that see each other.
    pub(super) fn pairs(&self) -> u64 {
        let [s, t] = self.tokens;
        let all = s * t;
        let hidden = if self.causal { s.min(t) * (s.min(t) - 1) / 2 } else { 0 };
        self.batch * self.counts[0] * all.saturating_sub(hidden).max(1)
    }
}

/// A tensor `[b, h, tokens, d]` of attention.
#[derive(Clone, Debug)]
pub(super) struct Side {
    strides: Vec<u64>,
    dtype: DType,
    pub(super) storage: usize,
    pub(super) bytes: u64,
    heads: u64,
}

impl Side {
    pub(super) fn new(of: &Tensor, storage: usize) -> Self {
        let heads = of.shape.get(1).copied().unwrap_or(1);
        Self { strides: of.strides.clone(), dtype: of.dtype, storage, bytes: of.storage(), heads }
    }

    /// Returns a range of tokens of a head. `head` is the index of the query head.
    fn tokens(&self, heads: &Heads, head: u64, start: u64, [count, d]: [u64; 2]) -> Ref {
        let (batch, head) =
            (head / heads.counts[0], head % heads.counts[0] * self.heads / heads.counts[0]);
        let at = |axis: usize| self.strides.get(axis).copied().unwrap_or(0);
        let offset = batch * at(0) + head * at(1) + start * at(2);
        let from = address(self.storage) + offset * self.dtype.size();
        Ref::new(from, &[count, d], self.dtype).strided(&[at(2), at(3).max(1)])
    }
}

/// A pass in which a block of tokens stays in a PE and blocks of others stream by: scores are products of resident and
/// streamed blocks, and sums are products of scores and streamed blocks.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) pairs: Vec<(Side, Side)>,
    pub(super) sums: Vec<(Side, Side)>,
    pub(super) is_softmax: bool,
    /// Whether keys are resident, and queries streamed.
    pub(super) is_by_keys: bool,
}

/// A resident block: its head, first token, tokens, and range of streamed tokens.
#[derive(Clone, Copy, Debug)]
struct Task {
    head: u64,
    start: u64,
    count: u64,
    seen: [u64; 2],
}

/// Returns the tasks of a PE. Long and short ones of a causal pass alternate.
fn tasks(pass: &Pass, heads: &Heads, rows: u64, pes: u64, turn: u64) -> Vec<Task> {
    let [resident, streamed] =
        if pass.is_by_keys { [heads.tokens[1], heads.tokens[0]] } else { heads.tokens };
    let (blocks, all) = (resident.div_ceil(rows), heads.batch * heads.counts[0]);
    let one = |number: u64| {
        // Blocks of one rank of all heads first, so that a round of PEs has blocks of about one length.
        let (rank, head) = (number / all, number % all);
        // Long blocks of a causal pass come first: the last queries, and the first keys.
        let block =
            if (rank % 2 == 0) == pass.is_by_keys { rank / 2 } else { blocks - 1 - rank / 2 };
        let start = block * rows;
        let count = rows.min(resident - start);
        let seen = match (heads.causal, pass.is_by_keys) {
            (false, _) => [0, streamed],
            (true, false) => [0, (start + count + streamed.saturating_sub(resident)).min(streamed)],
            (true, true) => [start.min(streamed.saturating_sub(1)), streamed],
        };
        Task { head, start, count, seen }
    };
    (turn..blocks * all).step_by(usize::try_from(pes).unwrap_or(1)).map(one).collect()
}

fn blocks(task: &Task, streamed: u64) -> u64 {
    (task.seen[1] - task.seen[0]).div_ceil(streamed)
}

/// Returns the streamed blocks of the PE with the most.
pub(super) fn steps(pass: &Pass, heads: &Heads, [rows, streamed]: [u64; 2], pes: u64) -> u64 {
    let of =
        |turn| tasks(pass, heads, rows, pes, turn).iter().map(|task| blocks(task, streamed)).sum();
    (0..pes).map(of).max().unwrap_or(0)
}

pub(super) fn stage(
    pass: &Rc<Pass>,
    heads: &Rc<Heads>,
    [rows, streamed]: [u64; 2],
    pes: u64,
    steps: u64,
) -> Stage {
    let (pass, heads) = (Rc::clone(pass), Rc::clone(heads));
    Rc::new(move |tl: &Tl, turn| {
        let mut left = steps;
        for task in tasks(&pass, &heads, rows, pes, turn) {
            let count = blocks(&task, streamed).min(left);
            left -= count;
            if count > 0 {
                block(tl, &pass, &heads, &task, streamed, [count, turn]);
            }
        }
    })
}

/// Computes a resident block with `count` streamed ones.
fn block(tl: &Tl, pass: &Pass, heads: &Heads, task: &Task, streamed: u64, [count, turn]: [u64; 2]) {
    let d = heads.d;
    let load = |side: &Side| tl.load(&side.tokens(heads, task.head, task.start, [task.count, d]));
    let resident: Vec<_> = pass.pairs.iter().map(|(side, _)| load(side)).collect();
    let loads = (0..count).map(|step| {
        // PEs begin at different blocks, so that they do not all read the same pages.
        let start = task.seen[0] + (step + turn) % blocks(task, streamed) * streamed;
        let tokens = streamed.min(task.seen[1] - start);
        let load = |side: &Side| {
            (side.storage, tl.load(&side.tokens(heads, task.head, start, [tokens, d])))
        };
        let mut tiles: Vec<(usize, Tile)> = pass.pairs.iter().map(|(_, side)| load(side)).collect();
        for (side, _) in &pass.sums {
            if !tiles.iter().any(|(storage, _)| *storage == side.storage) {
                tiles.push(load(side));
            }
        }
        tiles
    });
    let find = |tiles: &[(usize, Tile)], side: &Side| {
        let found = tiles.iter().find(|(storage, _)| *storage == side.storage);
        found.map_or_else(|| tl.zeros(&[streamed, d], side.dtype), |(_, tile)| tile.clone())
    };
    let mut softmax = pass.is_softmax.then(|| SoftmaxSum::new(tl, task.count, d));
    let mut sums: Vec<Option<Tile>> = vec![None; pass.sums.len()];
    for tiles in ahead(loads) {
        let pairs = resident.iter().zip(&pass.pairs);
        let scores: Vec<_> =
            pairs.map(|(tile, (_, side))| tl.dot(tile, &tl.trans(&find(&tiles, side)))).collect();
        if let Some(softmax) = &mut softmax {
            softmax.add(tl, &scores[0].lazy(), &find(&tiles, &pass.sums[0].0));
            continue;
        }
        for ((side, _), sum) in pass.sums.iter().zip(&mut sums) {
            let weights = weights(tl, &scores, side.dtype);
            let streamed = find(&tiles, side);
            *sum = Some(match sum.take() {
                Some(sum) => tl.dot_add(&weights, &streamed, &sum),
                None => tl.dot(&weights, &streamed),
            });
        }
    }
    for (at, (_, out)) in pass.sums.iter().enumerate() {
        let to = out.tokens(heads, task.head, task.start, [task.count, d]);
        match (&softmax, sums[at].take()) {
            (Some(softmax), _) => tl.store(&to, &softmax.result(tl, out.dtype)),
            (None, Some(sum)) => tl.store(&to, &tl.eval(&(sum.lazy() * 1.0).cast(out.dtype))),
            (None, None) => {}
        }
    }
}

/// Returns the weights of scores, or the gradient of the scores, in the type of the factors.
fn weights(tl: &Tl, scores: &[Tile], dtype: DType) -> Tile {
    let power = (scores[0].lazy() - 1.0).exp();
    let x = match scores.get(1) {
        Some(other) => power * &(other.lazy() - 1.0),
        None => power,
    };
    tl.eval(&cast(x, dtype))
}
