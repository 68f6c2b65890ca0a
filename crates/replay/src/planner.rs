//! The planner: fixed offsets for all allocations of a history that will repeat.
//!
//! A training step or a captured graph requests the same blocks in the same order every time. Once their lifetimes
//! are known, offsets can be computed in advance. This is dynamic storage allocation: NP-hard, but real programs
//! come close to its lower bound, the peak of the live bytes. [`plan`] tries two complementary kinds of
//! heuristics, stops at the first result close enough to the bound, and otherwise keeps the best:
//!
//! - *greedy*: takes the blocks in a fixed order and puts each at the lowest offset that is free for its whole life.
//!   Largest first packs training well, whose peak consists of a few large blocks.
//! - *replay*: takes the blocks in the order of the history, below a wall at the bound, and puts each next to a block
//!   that dies at about the same time. It packs servers well, whose blocks come and go in all sizes; greedy leaves a
//!   third of their memory unused.
//! - *search*: improves a greedy order step by step, for up to about a hundred blocks.
//!
//! Pending work of a stream may still use a block after it is freed. So blocks of different streams never share memory:
//! each stream has a separate range, one after the other, which is valid however far streams lag behind the host.
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

const ALIGNMENT: Bytes = Bytes::new(128);

/// Inverse of the relative distance to the bound at which the search ends.
const CLOSE_ENOUGH: u64 = 192;

/// Number of pairs of blocks with overlapping lives above which [`THEN`] is skipped: a greedy order costs about 50 ns
/// per pair.
const MANY_MEETINGS: u64 = 40_000_000;
/// Number of such pairs above which no greedy order is tried.
const TOO_MANY_MEETINGS: u64 = 100_000_000;

/// Offsets of all allocations of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Offset of each allocation, indexed by its [`TraceId`].
    pub offsets: Vec<Bytes>,
    /// Offset of the range of each stream.
    pub ranges: BTreeMap<u32, Bytes>,
    /// Size of the region that holds all blocks, in whole granules.
    pub extent: Bytes,
    /// Lower bound of the extent of every plan: the sum over the streams of the peak of their live bytes, with each
    /// block rounded up to 128 bytes and each stream to granules.
    pub bound: Bytes,
}

/// Error of a [`Plan`] that places two blocks over each other while both are live. The plan must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allocation {} would overlap allocation {}, which is still live", .new.0, .live.0)]
pub struct Overlap {
    /// The block allocated first.
    pub live: TraceId,
    /// The block placed over it.
    pub new: TraceId,
}

/// Error of a trace whose sizes add up to more than 62 bits, so that offsets might not fit into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the allocations add up to {total} bytes: a plan covers at most 2⁶²")]
pub struct TooLarge {
    /// Sum of the sizes, each with 128 bytes for rounding.
    pub total: u128,
}

/// Computes offsets for all allocations of `trace`, for memory that comes in multiples of `granule` (a power of two).
///
/// Blocks that are never freed live to the end, and blocks of zero bytes have offset 0. Planning takes seconds for a
/// few hundred thousand allocations. Each greedy order costs O(n · k log k), where k is the number of blocks that one
/// block meets during its life. Each replay costs O(n · h), where h is the number of holes. Where very many blocks
/// meet, only replays are tried; such plans may be a few per cent above the bound.
///
/// Sizes that add up to more than 62 bits are rejected.
pub fn plan(trace: &Trace, granule: Bytes) -> Result<Plan, TooLarge> {
    let total = trace.events.iter().fold(0_u128, |total, event| match event {
        Event::Allocate(request) => total + u128::from(request.size.get()) + 128,
        Event::Free { .. } => total,
    });
    if total > 1 << 62 {
        return Err(TooLarge { total });
    }
    let mut plan = Plan {
        offsets: vec![Bytes::ZERO; trace.allocations as usize],
        ranges: BTreeMap::new(),
        extent: Bytes::ZERO,
        bound: Bytes::ZERO,
    };
    for (stream, (ids, blocks)) in &lifetimes(trace) {
        plan.ranges.insert(*stream, plan.extent);
        let bound = whole_granules(peak(blocks), granule);
        let (extent, offsets) = packed(blocks, bound, granule);
        for (id, offset) in ids.iter().zip(offsets) {
            plan.offsets[id.index()] = plan.extent + Bytes::new(offset);
        }
        plan.extent += Bytes::new(extent);
        plan.bound += Bytes::new(bound);
    }
    Ok(plan)
}

/// Returns the best attempt for the blocks of one stream: the extent in whole granules, and the offsets.
fn packed(blocks: &[Block], bound: u64, granule: Bytes) -> (u64, Vec<u64>) {
    let enough = bound + bound / CLOSE_ENOUGH;
    let mut best: Option<(u64, Vec<u64>)> = None;
    for attempt in attempts(blocks.len(), meetings(blocks)) {
        let offsets = attempt(blocks, bound);
        let extent = whole_granules(extent(blocks, &offsets), granule);
        if best.as_ref().is_none_or(|(least, _)| extent < *least) {
            best = Some((extent, offsets));
        }
        if best.as_ref().is_some_and(|(least, _)| *least <= enough) {
            break;
        }
    }
    best.expect("there is at least one attempt")
}

/// Returns the attempts for this number of blocks and meetings, in order.
fn attempts(blocks: usize, meetings: u64) -> impl Iterator<Item = &'static Attempt> {
    let first: &[Attempt] = if meetings > TOO_MANY_MEETINGS { &[] } else { FIRST };
    let then: &[Attempt] = if meetings > MANY_MEETINGS { &[] } else { THEN };
    let search: &[Attempt] = if blocks > greedy::SEARCHED { &[] } else { SEARCH };
    let last = if blocks > FEW { search } else { EXACT };
    first.iter().chain(REPLAYS).chain(then).chain(last)
}

/// Function that computes offsets of the blocks, given the lower bound of the extent.
type Attempt = fn(&[Block], u64) -> Vec<u64>;

/// Attempt that is most successful for training.
const FIRST: &[Attempt] = &[|blocks, _| greedy::place(blocks, |block| block.size)];

/// Attempts that are fast, regardless of the number of meetings.
const REPLAYS: &[Attempt] = &[
    |blocks, bound| replay::place(blocks, bound),
    |blocks, bound| replay::place(blocks, bound + bound / 256),
    |blocks, bound| replay::place(blocks, bound + bound / 128),
];

/// Attempts made if the first ones are not close enough and there are few meetings.
const THEN: &[Attempt] = &[
    |blocks, _| greedy::place(blocks, |block| u64::from(block.size.ilog2())),
    |blocks, _| greedy::place(blocks, |block| u64::from(block.life().ilog2())),
    |blocks, _| greedy::place(blocks, |block| block.size.saturating_mul(u64::from(block.life()))),
];

/// Attempts that find an optimal plan by trying all orders of a few blocks.
const EXACT: &[Attempt] = &[|blocks, _| greedy::place_in_all_orders(blocks)];
/// Maximum number of blocks for [`EXACT`]; seven have 5,040 orders.
const FEW: usize = 7;
/// Attempts for more blocks than [`FEW`], but few enough to try some orders.
const SEARCH: &[Attempt] = &[greedy::place_by_search];

impl Plan {
    /// Replays `trace` and checks that no two live blocks overlap.
    ///
    /// # Panics
    ///
    /// If `trace` has more allocations than the planned trace.
    pub fn verify(&self, trace: &Trace) -> Result<(), Overlap> {
        let mut live: BTreeMap<Bytes, (Bytes, TraceId)> = BTreeMap::new();
        for event in &trace.events {
            match event {
                Event::Allocate(request) if request.size.is_zero() => {}
                Event::Allocate(request) => {
                    let start = self.offsets[request.id.index()];
                    let end = start + Bytes::new(rounded(request.size));
                    // Live blocks do not overlap, so only the last one that starts below `end` can reach into the new
                    // block.
                    if let Some((_, &(reach, there))) = live.range(..end).next_back()
                        && reach > start
                    {
                        return Err(Overlap { live: there, new: request.id });
                    }
                    live.insert(start, (end, request.id));
                }
                Event::Free { id, .. } => {
                    let start = self.offsets[id.index()];
                    if live.get(&start).is_some_and(|(_, there)| there == id) {
                        live.remove(&start);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Allocation with its size, and its life from `start` to before `end`. Time is counted in allocations.
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
    size.align_up(ALIGNMENT).expect("a recorded size is far below 2^64").get()
}

fn whole_granules(bytes: u64, granule: Bytes) -> u64 {
    Bytes::new(bytes).align_up(granule).expect("a recorded peak is far below 2^64").get()
}

/// Blocks of one stream in the order of allocation, with their numbers in the trace.
type OfStream = (Vec<TraceId>, Vec<Block>);

/// Returns the blocks of each stream, without blocks of zero bytes. The time of a stream is the number of its own
/// allocations.
fn lifetimes(trace: &Trace) -> BTreeMap<u32, OfStream> {
    let mut streams: BTreeMap<u32, OfStream> = BTreeMap::new();
    let mut places: Vec<Option<(u32, usize)>> = vec![None; trace.allocations as usize];
    for event in &trace.events {
        match event {
            Event::Allocate(request) if request.size.is_zero() => {}
            Event::Allocate(request) => {
                let (ids, blocks) = streams.entry(request.stream).or_default();
                places[request.id.index()] = Some((request.stream, blocks.len()));
                let start = u32::try_from(blocks.len()).expect("allocations have 32 bits");
                blocks.push(Block { size: rounded(request.size), start, end: u32::MAX });
                ids.push(request.id);
            }
            Event::Free { id, .. } => {
                let Some((stream, place)) = places[id.index()] else { continue };
                let (_, blocks) = streams.entry(stream).or_default();
                blocks[place].end = u32::try_from(blocks.len()).expect("allocations have 32 bits");
            }
        }
    }
    for (_, blocks) in streams.values_mut() {
        let end = u32::try_from(blocks.len()).expect("allocations have 32 bits");
        blocks.iter_mut().for_each(|block| block.end = block.end.min(end));
    }
    streams
}

/// Returns the indices of the blocks in the order of allocation.
fn by_start(blocks: &[Block]) -> Vec<usize> {
    let mut order = vec![0; blocks.len()];
    for (index, block) in blocks.iter().enumerate() {
        order[block.start as usize] = index;
    }
    order
}

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

/// Returns the number of pairs of blocks that are live at the same time: each block meets the blocks live at its start.
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
