//! Attention over whole sequences, without storing the matrix of all scores.

use std::rc::Rc;

use cubeyard_runtime::dtype::DType;

use super::ahead::ahead;
use super::softmax_sum::{NEVER, SoftmaxSum};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Lazy, Ref, Tile, Tl};

/// Computes attention for the heads that each PE holds. Arguments: Q, K, V and the output, each with a row per head;
/// the head dimension; the tokens per block of Q, and per block of K and V; and 1 for causal masking, in which a token
/// sees only itself and its predecessors.
///
/// A row of Q, V or the output is a matrix with a row per token. A row of K is a sequence of blocks, each a
/// matrix with a column per token, so that nothing must be transposed.
pub fn flash_attention() -> Kernel {
    Kernel::new("flash_attention", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// The operands of one head.
struct Head {
    tl: Tl,
    /// Q, K, V and the output, each a matrix of tokens by head dimension.
    q: Ref,
    k: Ref,
    v: Ref,
    out: Ref,
    blocks: [u64; 2],
    causal: bool,
}

/// A step of attention: the scores of a block of Q and a block of K, with the values of the latter.
struct Step {
    scores: Lazy,
    values: Tile,
    /// The block of the output, if these are its last scores.
    last: Option<Ref>,
}

/// The scores of a block are computed before the softmax of the previous block, and a block of the output after the
/// softmax of the next. So the matrix unit and the vector unit work at the same time if they are separate engines.
fn body(tl: &Tl, args: &Args) {
    let all = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (size, causal) = (args.whole(4), args.whole(7) == 1);
    let blocks = [args.whole(5), args.whole(6)];
    let tokens = all[0].dim(1) / size.max(1);
    let scores = (0..all[0].dim(0)).flat_map(|head| {
        let of = |tensor: &Ref| tensor.at(head * tokens * size, &[tokens, size]);
        let [q, k, v, out] = all.each_ref().map(of);
        Head { tl: tl.clone(), q, k, v, out, blocks, causal }.scores()
    });
    let (mut begun, mut ended) = (None, None);
    let finish = |(sum, out): (SoftmaxSum, Ref)| tl.store(&out, &sum.result(tl, out.ty().dtype));
    for Step { scores, values, last } in ahead(scores) {
        let rows = scores.ty().shape[0];
        let mut sum = begun.take().unwrap_or_else(|| SoftmaxSum::new(tl, rows, size));
        sum.add(tl, &scores, &values);
        ended.take().into_iter().for_each(finish);
        match last {
            Some(out) => ended = Some((sum, out)),
            None => begun = Some(sum),
        }
    }
    ended.into_iter().for_each(finish);
}

impl Head {
    /// Returns the scores of every block of Q with each block of K that it sees.
    fn scores(self) -> impl Iterator<Item = Step> {
        let count = self.tl.cdiv(self.q.dim(0), self.blocks[0]);
        let head = Rc::new(self);
        (0..count).flat_map(move |block| Rc::clone(&head).of_block(block * head.blocks[0]))
    }

    fn of_block(self: Rc<Self>, start: u64) -> impl Iterator<Item = Step> {
        let shape = [self.blocks[0].min(self.q.dim(0) - start), self.q.dim(1)];
        let q = self.tl.load(&self.q.block(&[start, 0], &shape));
        let seen = if self.causal { start + shape[0] } else { self.k.dim(0) };
        let count = self.tl.cdiv(seen, self.blocks[1]);
        (0..count).map(move |block| {
            let (k, values) = self.load(block * self.blocks[1]);
            let scores = self.hide(&self.tl.dot(&q, &k), start, block * self.blocks[1]);
            let last = (block + 1 == count).then(|| self.out.block(&[start, 0], &shape));
            Step { scores, values, last }
        })
    }

    /// Loads the block of K and V that begins at a token.
    fn load(&self, start: u64) -> (Tile, Tile) {
        let (tl, size) = (&self.tl, self.k.dim(1));
        let count = self.blocks[1].min(self.k.dim(0) - start);
        let k = tl.load(&self.k.at(start * size, &[size, count]));
        (k, tl.load(&self.v.block(&[start, 0], &[count, size])))
    }

    /// Masks the scores of tokens in the future, if attention is causal.
    fn hide(&self, scores: &Tile, q: u64, k: u64) -> Lazy {
        let (tl, [rows, columns]) = (&self.tl, [scores.dim(0), scores.dim(1)]);
        if !self.causal || k + columns <= q + 1 {
            return scores.lazy();
        }
        let rows = tl.reshape(&tl.arange(q, rows, DType::F32), &[rows, 1]);
        let columns = tl.reshape(&tl.arange(k, columns, DType::F32), &[1, columns]);
        rows.lazy().ge(&columns).select(scores, NEVER)
    }
}
