//! Programs whose tensor sizes depend on the data.

use super::{SplitMix64, Writer};
use crate::trace::TraceId;

/// Training on sampled neighbourhoods of a graph: every tensor of every step has a size of its own.
pub(super) fn graph_sampling(out: &mut Writer, draws: &mut SplitMix64) {
    let features = draws.pick(&[128, 256, 512]) * 4;
    out.allocate(draws.between(200, 900) << 20, 0);
    for _ in 0..6 {
        out.allocate(features * 256, 1);
        out.allocate(features * 512, 2);
    }
    for _ in 0..draws.between(150, 300) {
        let seeds = draws.between(500, 2000);
        let mut nodes = seeds;
        let mut saved = Vec::new();
        for _ in 0..3 {
            let edges = nodes * draws.between(3, 12);
            nodes += edges * draws.between(40, 90) / 100;
            out.touch(edges * 16, 3);
            saved.push(out.allocate(edges * 8, 4));
            saved.push(out.allocate(nodes * 8, 5));
        }
        let mut state = out.allocate(nodes * features, 6);
        for _ in 0..3 {
            out.touch(nodes * features / 2, 7);
            nodes = (nodes / 4).max(seeds);
            saved.push(std::mem::replace(&mut state, out.allocate(nodes * features, 8)));
        }
        out.free(state);
        let gradients: Vec<_> = (0..6).map(|_| out.allocate(features * 256, 9)).collect();
        out.free_all(saved.into_iter().rev());
        out.free_all(gradients);
    }
}

/// Sizes from 64 bytes to 64 MiB, lifetimes from one step to thousands, one unrelated to the other.
pub(super) fn churn(out: &mut Writer, draws: &mut SplitMix64) {
    let most = draws.between(200, 1500);
    let mut live: Vec<TraceId> = Vec::new();
    for _ in 0..20_000 {
        let full = live.len() as u64 >= most;
        if full || (!live.is_empty() && draws.chance(40)) {
            let newest = draws.chance(40);
            let index = if newest { live.len() - 1 } else { draws.index(live.len()) };
            out.free(live.swap_remove(index));
        } else {
            live.push(out.allocate(draws.doubling(64, 64 << 20), 1));
        }
    }
}
