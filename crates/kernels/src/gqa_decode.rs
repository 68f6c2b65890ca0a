//! Attention of one new token per sequence over its KV cache.

use super::ahead::ahead;
use super::softmax_sum::SoftmaxSum;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tl};

/// Computes attention of new tokens, where several heads of Q share one head of K and V.
/// Arguments: Q, K, V and the output, each with a row per sequence and head of K; the head dimension;
/// and the tokens per block of K and V.
///
/// A row of Q or the output is a matrix with a row per sharing head; a row of V is a matrix with a row per token;
/// a row of K is a sequence of blocks, each with a column per token, so that nothing must be transposed.
pub fn gqa_decode() -> Kernel {
    Kernel::new("gqa_decode", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

fn body(tl: &Tl, args: &Args) {
    let [q, k, v, out] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (size, block) = (args.whole(4).max(1), args.whole(5));
    attend(tl, [&q, &k, &v], size, k.dim(1) / size, block, |row, sum| {
        let to = row_of(&out, row, [q.dim(1) / size, size]);
        tl.store(&to, &sum.result(tl, out.ty().dtype));
    });
}

/// Computes the attention of each row of Q over `tokens` tokens of K and V, and passes the sums to `done`.
///
/// Blocks are loaded, and scores computed, one ahead of their use.
pub(super) fn attend(
    tl: &Tl,
    [q, k, v]: [&Ref; 3],
    size: u64,
    tokens: u64,
    block: u64,
    mut done: impl FnMut(u64, SoftmaxSum),
) {
    let (group, count) = (q.dim(1) / size, tl.cdiv(tokens, block));
    let loads = (0..q.dim(0) * count).map(|index| {
        let (row, start) = (index / count, index % count * block);
        let (first, length) = ((row * tokens + start) * size, block.min(tokens - start));
        let query = (start == 0).then(|| tl.load(&row_of(q, row, [group, size])));
        (query, tl.load(&k.at(first, &[size, length])), tl.load(&v.at(first, &[length, size])))
    });
    let mut query = None;
    let scores = ahead(loads).map(|(first, k, v)| {
        query = first.or(query.take());
        let query = query.as_ref().expect("the first block of a row has its query");
        (tl.dot(query, &k).lazy(), v)
    });
    let mut blocks = ahead(scores);
    for row in 0..q.dim(0) {
        let mut sum = SoftmaxSum::new(tl, group, size);
        for (scores, values) in blocks.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            sum.add(tl, &scores, &values);
        }
        done(row, sum);
    }
}

/// Views a row as a matrix.
fn row_of(tensor: &Ref, row: u64, shape: [u64; 2]) -> Ref {
    tensor.at(row * shape[0] * shape[1], &shape)
}
