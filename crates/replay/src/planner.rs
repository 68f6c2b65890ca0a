//! The planner: fixed offsets for all allocations of a history that will repeat.
//!
//! A training step or a captured graph asks for the same blocks in the same order every time. Once
//! its lifetimes are known, the offsets can be computed ahead: this is dynamic storage allocation,
//! which is NP-hard, but whose lower bound, the peak of the live bytes, is nearly reached on real
//! programs. Two kinds of heuristics complement each other, so [`plan`] tries them in turn, stops at
//! the first that is close enough to the bound, and otherwise keeps the best:
//!
//! - *greedy*: take the blocks in a fixed order and put each at the lowest offset that is free for
//!   its whole life. Largest first packs training, whose peak consists of a few large blocks.
//! - *replay*: take the blocks in the order of the history, below a wall at the bound, and put each
//!   next to a block that dies at about the same time. It packs servers, whose blocks come and go
//!   in all sizes, and where greedy leaves a third unused.
//!
//! ```
//! use cubeyard_memory::Bytes;
//! use cubeyard_replay::planner::plan;
//! use cubeyard_replay::trace;
//!
//! let script = b"alloc a 30 MiB\nalloc b 3 MiB\nfree a\nalloc c 30 MiB\n";
//! let trace = &trace::read("tiny", script, Bytes::mib(1))?[0];
//! let plan = plan(trace, Bytes::mib(1)).unwrap();
//! plan.verify(trace).unwrap();
//! assert_eq!(plan.extent, Bytes::mib(33)); // `c` takes the place of `a`
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod greedy;
mod replay;

use std::collections::BTreeMap;

use crate::trace::{Event, Trace, TraceId};
use cubeyard_units::Bytes;

/// Blocks start at multiples of this.
const ALIGNMENT: Bytes = Bytes::new(128);

/// An extent within one part in this many of the bound is close enough to stop searching.
const CLOSE_ENOUGH: u64 = 192;

/// With more pairs of blocks than this that live at the same time, only [`FIRST`] is tried: a greedy
/// order costs a fraction of a microsecond for each pair.
const MOST_MEETINGS: u64 = 40_000_000;

/// Where each allocation of a trace goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The offset of each allocation, by its [`TraceId`].
    pub offsets: Vec<Bytes>,
    /// The bytes that a region needs for all of it, in whole granules.
    pub extent: Bytes,
    /// The most bytes that are live at one time, each block rounded up to 128: no plan needs less.
    pub peak_live: Bytes,
}

/// Two blocks of a [`Plan`] that are live at the same time share bytes: the plan is not to be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allocation {} would overlap allocation {}, which is still live", .new.0, .live.0)]
pub struct Overlap {
    /// The block that was there.
    pub live: TraceId,
    /// The block that was put over it.
    pub new: TraceId,
}

/// The sizes of a trace add up to more than there is memory in the world, so its offsets might not
/// fit 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the allocations add up to {total} bytes, for which there can be no plan")]
pub struct TooLarge {
    /// What they add up to.
    pub total: u128,
}

/// Computes offsets for all allocations of `trace`, for memory that comes in multiples of `granule`
/// (a power of two).
///
/// Blocks that are never freed live to the end. Takes seconds for a few hundred thousand
/// allocations: each greedy order costs O(n · k log k), where k is the number of blocks that one
/// block meets during its life, and each replay O(n · h), where h is the number of holes.
///
/// Sizes that add up to more than 62 bits are refused: there is no such memory.
pub fn plan(trace: &Trace, granule: Bytes) -> Result<Plan, TooLarge> {
    let total = trace.events.iter().fold(0_u128, |total, event| match event {
        Event::Allocate(request) => total + u128::from(request.size.get()) + 128,
        Event::Free { .. } => total,
    });
    if total > 1 << 62 {
        return Err(TooLarge { total });
    }
    let blocks = lifetimes(trace);
    let peak_live = peak(&blocks);
    let bound = whole_granules(peak_live, granule);
    let enough = bound + bound / CLOSE_ENOUGH;
    let mut best: Option<(u64, Vec<u64>)> = None;
    let thorough: &[Attempt] = if meetings(&blocks) > MOST_MEETINGS { &[] } else { THEN };
    let exact: &[Attempt] = if blocks.len() > FEW { &[] } else { EXACT };
    for attempt in FIRST.iter().chain(thorough).chain(exact) {
        let offsets = attempt(&blocks, bound);
        let extent = whole_granules(extent(&blocks, &offsets), granule);
        if best.as_ref().is_none_or(|(least, _)| extent < *least) {
            best = Some((extent, offsets));
        }
        if best.as_ref().is_some_and(|(least, _)| *least <= enough) {
            break;
        }
    }
    let (extent, offsets) = best.expect("there is at least one attempt");
    Ok(Plan {
        offsets: offsets.into_iter().map(Bytes::new).collect(),
        extent: Bytes::new(extent),
        peak_live: Bytes::new(peak_live),
    })
}

/// Offsets for the blocks, given the least extent that can be hoped for.
type Attempt = fn(&[Block], u64) -> Vec<u64>;

/// What [`plan`] always tries, the most often successful first.
const FIRST: &[Attempt] = &[
    |blocks, _| greedy::place(blocks, |block| block.size),
    |blocks, bound| replay::place(blocks, bound),
    |blocks, bound| replay::place(blocks, bound + bound / 256),
    |blocks, bound| replay::place(blocks, bound + bound / 128),
];

/// What it tries where that is not good enough and time allows.
const THEN: &[Attempt] = &[
    |blocks, _| greedy::place(blocks, |block| u64::from(block.size.ilog2())),
    |blocks, _| greedy::place(blocks, |block| u64::from(block.life().ilog2())),
    |blocks, _| greedy::place(blocks, |block| block.size.saturating_mul(u64::from(block.life()))),
];

/// What finds an optimal plan, where there are so few blocks that all orders can be tried.
const EXACT: &[Attempt] = &[|blocks, _| greedy::place_in_all_orders(blocks)];
/// Up to so many blocks; seven have 5,040 orders.
const FEW: usize = 7;

impl Plan {
    /// Replays `trace` and checks that no two blocks that are live together share a byte.
    ///
    /// # Panics
    ///
    /// When `trace` is not the one that was planned, and has more allocations.
    pub fn verify(&self, trace: &Trace) -> Result<(), Overlap> {
        let mut live: BTreeMap<Bytes, (Bytes, TraceId)> = BTreeMap::new();
        for event in &trace.events {
            match event {
                Event::Allocate(request) => {
                    let start = self.offsets[request.id.index()];
                    let end = start + Bytes::new(rounded(request.size));
                    // Live blocks do not overlap, so only the last that starts below `end` can reach in.
                    if let Some((_, &(reach, there))) = live.range(..end).next_back()
                        && reach > start
                    {
                        return Err(Overlap { live: there, new: request.id });
                    }
                    live.insert(start, (end, request.id));
                }
                Event::Free { id, .. } => {
                    live.remove(&self.offsets[id.index()]);
                }
            }
        }
        Ok(())
    }
}

/// One allocation: its size, and its life from `start` up to but not including `end`, where the time
/// is the number of allocations made before.
#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    start: u32,
    end: u32,
}

impl Block {
    const fn life(&self) -> u32 {
        self.end - self.start
    }
}

fn rounded(size: Bytes) -> u64 {
    size.max(ALIGNMENT).align_up(ALIGNMENT).expect("a recorded size is far below 2^64").get()
}

fn whole_granules(bytes: u64, granule: Bytes) -> u64 {
    Bytes::new(bytes).align_up(granule).expect("a recorded peak is far below 2^64").get()
}

/// The blocks of a trace by their number.
fn lifetimes(trace: &Trace) -> Vec<Block> {
    let mut blocks =
        vec![Block { size: 0, start: 0, end: trace.allocations }; trace.allocations as usize];
    let mut now = 0;
    for event in &trace.events {
        match event {
            Event::Allocate(request) => {
                let block = &mut blocks[request.id.index()];
                block.size = rounded(request.size);
                block.start = now;
                now += 1;
            }
            Event::Free { id, .. } => blocks[id.index()].end = now,
        }
    }
    blocks
}

/// The numbers of the blocks in the order in which they were allocated.
fn by_start(blocks: &[Block]) -> Vec<usize> {
    let mut order = vec![0; blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        order[block.start as usize] = index;
    }
    order
}

/// The most bytes that are live at one time.
fn peak(blocks: &[Block]) -> u64 {
    let mut freed = vec![0; blocks.len() + 1];
    for block in blocks {
        freed[block.end as usize] += block.size;
    }
    let (mut live, mut most) = (0, 0);
    for (now, index) in by_start(blocks).into_iter().enumerate() {
        live = live - freed[now] + blocks[index].size;
        most = most.max(live);
    }
    most
}

/// How many pairs of blocks are live at the same time: each block meets those that are live when it
/// starts.
fn meetings(blocks: &[Block]) -> u64 {
    let mut freed = vec![0; blocks.len() + 1];
    for block in blocks {
        freed[block.end as usize] += 1;
    }
    let (mut live, mut pairs) = (0_u64, 0);
    for ended in freed.into_iter().take(blocks.len()) {
        live -= ended;
        pairs += live;
        live += 1;
    }
    pairs
}

fn extent(blocks: &[Block], offsets: &[u64]) -> u64 {
    blocks.iter().zip(offsets).map(|(block, offset)| offset + block.size).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
