//! Attention over whole sequences, without storing the matrix of all scores.

use cubeyard_runtime::dtype::DType;

use super::softmax_sum::{NEVER, SoftmaxSum};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tile, Tl};

/// Computes attention for the heads that each PE holds. Arguments: Q, K, V and the output, each with a row for
/// each head; the head dimension; the tokens per block of Q, and of K and V; and 1 for causal masking, in which
/// a token sees only itself and its predecessors.
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

fn body(tl: &Tl, args: &Args) {
    let all = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (size, causal) = (args.whole(4), args.whole(7) == 1);
    let blocks = [args.whole(5), args.whole(6)];
    let tokens = all[0].dim(1) / size.max(1);
    for head in 0..all[0].dim(0) {
        let of = |tensor: &Ref| tensor.at(head * tokens * size, &[tokens, size]);
        let [q, k, v, out] = all.each_ref().map(of);
        let head = Head { tl: tl.clone(), q, k, v, out, blocks, causal };
        (0..tl.cdiv(tokens, blocks[0])).for_each(|block| head.attend(block));
    }
}

impl Head {
    /// Computes one block of the output.
    fn attend(&self, block: u64) {
        let (tl, start) = (&self.tl, block * self.blocks[0]);
        let shape = [self.blocks[0].min(self.q.dim(0) - start), self.q.dim(1)];
        let q = tl.load(&self.q.block(&[start, 0], &shape));
        let mut sum = SoftmaxSum::new(tl, shape[0], shape[1]);
        let seen = if self.causal { start + shape[0] } else { self.k.dim(0) };
        for block in 0..tl.cdiv(seen, self.blocks[1]) {
            let (k, v) = self.load(block * self.blocks[1]);
            let scores = self.hide(tl.dot(&q, &k), start, block * self.blocks[1]);
            sum.add(tl, &scores, &v);
        }
        let out = sum.result(tl, self.out.ty().dtype);
        tl.store(&self.out.block(&[start, 0], &shape), &out);
    }

    /// Loads the block of K and V that begins at a token.
    fn load(&self, start: u64) -> (Tile, Tile) {
        let (tl, size) = (&self.tl, self.k.dim(1));
        let count = self.blocks[1].min(self.k.dim(0) - start);
        let k = tl.load(&self.k.at(start * size, &[size, count]));
        (k, tl.load(&self.v.block(&[start, 0], &[count, size])))
    }

    /// Masks the scores of tokens in the future, if attention is causal.
    fn hide(&self, scores: Tile, q: u64, k: u64) -> Tile {
        let (tl, [rows, columns]) = (&self.tl, [scores.dim(0), scores.dim(1)]);
        if !self.causal || k + columns <= q + 1 {
            return scores;
        }
        let rows = tl.reshape(&tl.arange(q as f64, rows, DType::F32), &[rows, 1]);
        let columns = tl.reshape(&tl.arange(k as f64, columns, DType::F32), &[1, columns]);
        tl.where_(&tl.ge(&rows, &columns), &scores, NEVER)
    }
}
