//! Attention of one new token per sequence over a KV cache that is distributed over all PEs.
//!
//! As in flash decoding, each PE computes the partial result of its tokens: the greatest score, the sum of the
//! weights, and the sum of the values. A binary tree of PEs then combines the partial results. The root differs
//! from row to row, so that all PEs share this work.

use super::gqa_decode::attend;
use super::softmax_sum::SoftmaxSum;
use cubeyard_collectives::collective::Wire;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Port, Tl};

/// Computes attention of new tokens over the tokens of all PEs of a launch. Arguments: Q, a copy on each PE with a row
/// per sequence and head of K; K and V, of which each PE has some tokens of every row; the output, with a row per PE;
/// the head dimension; and the tokens per block of K and V.
///
/// Each PE's part of K and V is laid out as for [`gqa_decode`](super::gqa_decode()), by rows of Q. Row `i` of the
/// result is on PE `i` modulo the number of PEs, after the earlier rows of that PE. The PEs are connected by
/// [`sequence_attention_wires`].
pub fn sequence_attention() -> Kernel {
    Kernel::new("sequence_attention", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// Returns the channels between the PEs, which are numbered cube by cube: from each PE to the PEs at
/// distances 1, 2, 4 and so on.
pub fn sequence_attention_wires(ranks: usize) -> Vec<Wire> {
    let pairs = levels(ranks)
        .flat_map(|(level, step)| (0..ranks).map(move |rank| (level, rank, (rank + step) % ranks)));
    let wire = |(level, rank, next)| {
        let [on, back] = ports(level);
        Wire { ends: [(rank, on), (next, back)] }
    };
    pairs.map(wire).collect()
}

/// Returns the levels of the tree with their distances: 1, 2, 4 and so on below the number of PEs.
fn levels(ranks: usize) -> impl Iterator<Item = (u16, usize)> {
    (0..).map(|level| (level, 1 << level)).take_while(move |(_, step)| *step < ranks)
}

/// Returns the ports to the PEs ahead and behind at the distance of a level.
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

/// Returns the rank of this PE in the launch.
fn place(tl: &Tl) -> u64 {
    tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("fewer PEs than addresses")
}

/// Combines partial results level by level: half of the remaining PEs send theirs to the PE behind, counted from the
/// row's root. All rows finish a level before any row begins the next, so that their messages overlap.
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
