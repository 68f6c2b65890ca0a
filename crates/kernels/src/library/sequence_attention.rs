//! Attention of one new token of each sequence, where the tokens before it are spread over all PEs.
//!
//! Each PE works out what its tokens give, as flash decoding does: the greatest score, the sum of the weights, and
//! the sum of the values. PEs then join these in pairs, and pairs of pairs, until one of them has all: another one
//! for each row, so that all of them have a part of this to do.

use super::gqa_decode::attend;
use super::softmax_sum::SoftmaxSum;
use crate::collective::Wire;
use crate::kernel::{Args, Kernel};
use crate::tl::{Port, Tl};

/// Computes the attention of new tokens over what all PEs of a launch hold together. Arguments: Q, a copy on each PE
/// with a row for each sequence and head of K; K and V, of which each PE has some tokens of every row; the output,
/// with a row for each PE; what a head has of each token; and the tokens of a block of K and V.
///
/// What a PE holds of K and V is, row by row of Q, as for [`gqa_decode`](super::gqa_decode()). Row `i` of the result
/// is with PE `i` modulo their number, behind those that it has already. The PEs are wired by
/// [`sequence_attention_wires`].
pub fn sequence_attention() -> Kernel {
    Kernel::new("sequence_attention", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// The channels between so many PEs, in the order of cubes and their PEs: each to those 1, 2, 4 and so on further on.
pub fn sequence_attention_wires(ranks: usize) -> Vec<Wire> {
    let pairs = levels(ranks)
        .flat_map(|(level, step)| (0..ranks).map(move |rank| (level, rank, (rank + step) % ranks)));
    let wire = |(level, rank, next)| {
        let [on, back] = ports(level);
        Wire { ends: [(rank, on), (next, back)] }
    };
    pairs.map(wire).collect()
}

/// 1, 2, 4 and so on below the number of PEs, with how many come before.
fn levels(ranks: usize) -> impl Iterator<Item = (u16, usize)> {
    (0..).map(|level| (level, 1 << level)).take_while(move |(_, step)| *step < ranks)
}

/// The ports to the PE that is so many further on, and to the one so many before.
fn ports(level: u16) -> [Port; 2] {
    [Port(2 * level), Port(2 * level + 1)]
}

fn body(tl: &Tl, args: &Args) {
    let [q, k, v, out] = [0, 1, 2, 3].map(|position| args.tensor(position).local());
    let (size, block) = (args.whole(4).max(1), args.whole(5));
    let shape = [q.dim(1) / size, size];
    let mut sums = Vec::new();
    attend(tl, [&q, &k, &v], size, k.dim(0), block, |_, sum| sums.push(sum));
    let [rank, ranks] = [place(tl), tl.num_programs(0) * tl.num_programs(1)].map(index);
    join(tl, &mut sums, [rank, ranks], shape);
    for (slot, sum) in (0..).zip(sums.iter().skip(rank).step_by(ranks)) {
        let to = out.at(slot * shape[0] * shape[1], &shape);
        tl.store(&to, &sum.result(tl, out.ty().dtype));
    }
}

/// Which PE of the launch this is.
fn place(tl: &Tl) -> u64 {
    tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("fewer PEs than addresses")
}

/// Level by level, PEs hand what they have to the one before, counted from the one that gets the row in the end.
/// All rows go through a level before any goes through the next, so that their messages are under way at once.
fn join(tl: &Tl, sums: &mut [SoftmaxSum], [rank, ranks]: [usize; 2], shape: [u64; 2]) {
    for (level, step) in levels(ranks) {
        let [on, back] = ports(level);
        for (row, sum) in sums.iter_mut().enumerate() {
            let place = (rank + ranks - row % ranks) % ranks;
            if place % (2 * step) == step {
                sum.send(tl, back);
            } else if place.is_multiple_of(2 * step) && place + step < ranks {
                let other = SoftmaxSum::receive(tl, on, shape);
                sum.join(tl, &other);
            }
        }
    }
}
