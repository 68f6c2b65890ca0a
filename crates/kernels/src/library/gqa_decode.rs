//! Attention of one new token of each sequence, over what is kept of those before it.

use super::ahead::ahead;
use super::softmax_sum::SoftmaxSum;
use crate::kernel::{Args, Kernel};
use crate::tl::{Ref, Tl};

/// Computes the attention of new tokens, where several heads of Q share one of K and V. Arguments: Q, K, V and
/// the output, each with a row for each sequence and head of K; what a head has of each token; and the tokens of a
/// block of K and V.
///
/// A row of Q and of the output is a matrix of the heads that share; one of V is a matrix of tokens; one of
/// K is a matrix for each of its blocks, with a column for each token, so that nothing must be transposed.
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

/// Works out what each row of Q makes of so many tokens of K and V, and hands it on row by row.
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
        (tl.load(&k.at(first, &[size, length])), tl.load(&v.at(first, &[length, size])))
    });
    let mut blocks = ahead(loads);
    for row in 0..q.dim(0) {
        let query = tl.load(&row_of(q, row, [group, size]));
        let mut sum = SoftmaxSum::new(tl, group, size);
        for _ in 0..count {
            let Some((k, v)) = blocks.next() else { break };
            sum.add(tl, &tl.dot(&query, &k), &v);
        }
        done(row, sum);
    }
}

/// A row as a matrix.
fn row_of(tensor: &Ref, row: u64, shape: [u64; 2]) -> Ref {
    tensor.at(row * shape[0] * shape[1], &shape)
}
