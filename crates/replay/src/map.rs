//! Blocks of a replay by address and time, few enough to draw.

use std::collections::BTreeMap;

use super::holders::name_of;
use super::{ReplayPolicy, Target};
use crate::trace::{CallStacks, Event, Trace};
use cubeyard_units::Bytes;

/// Number of blocks that a map keeps: the blocks with the most bytes times events.
const MOST: usize = 200_000;

/// Blocks of a replay by address and time.
///
/// Addresses that no block ever used are left out, so the height of the map is the number of addresses used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// Name of the policy.
    pub policy: &'static str,
    /// Number of events of the trace.
    pub events: usize,
    /// Number of bytes of all addresses ever used.
    pub height: Bytes,
    /// Names of the blocks' call sites: user frames, or other names if these are unknown.
    pub names: Vec<String>,
    /// Blocks with the most bytes times events, in the order of their allocation.
    pub blocks: Vec<MappedBlock>,
    /// Number of blocks left out.
    pub left_out: usize,
}

/// Block of a [`BlockMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedBlock {
    /// Number of events before the block was allocated.
    pub from: usize,
    /// Number of events before the block was freed; the number of all events if it was not.
    pub to: usize,
    /// Bytes of used addresses below the block.
    pub start: Bytes,
    /// Requested size of the block.
    pub size: Bytes,
    /// Index of the block's call site in [`BlockMap::names`].
    pub name: usize,
}

impl MappedBlock {
    /// Returns the size in bytes times the lifetime in events.
    pub fn weight(&self) -> u128 {
        u128::from(self.size.get()) * (self.to - self.from) as u128
    }
}

impl BlockMap {
    /// Replays a trace under a policy and returns its blocks; `None` if the policy has no addresses, or is defined by a
    /// front end.
    pub fn new(policy: &ReplayPolicy, trace: &Trace) -> Option<Self> {
        let mut placed = placed(&mut *policy.target(trace)?, trace)?;
        let ranges = used_ranges(&placed);
        let height = ranges.last().map_or(0, |&(start, end, below)| below + (end - start));
        let left_out = placed.len().saturating_sub(MOST);
        placed.sort_by_key(|(block, _)| (std::cmp::Reverse(block.weight()), block.from));
        placed.truncate(MOST);
        placed.sort_by_key(|(block, _)| block.from);
        let mut names = Names::default();
        let finished = |(block, site): (MappedBlock, u32)| MappedBlock {
            start: below(&ranges, block.start),
            name: names.of(site, &trace.stacks),
            ..block
        };
        let blocks = placed.into_iter().map(finished).collect();
        let (policy, events, height) = (policy.name, trace.events.len(), Bytes::new(height));
        Some(Self { policy, events, height, names: names.all, blocks, left_out })
    }

    /// Returns the name of the call site of a block of this map.
    pub fn name(&self, block: &MappedBlock) -> &str {
        self.names.get(block.name).map_or("", String::as_str)
    }

    /// Returns the total number of blocks in the replay, including those left out of the map.
    pub fn all(&self) -> usize {
        self.blocks.len() + self.left_out
    }
}

/// Names of call sites, without duplicates.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    by_name: BTreeMap<String, usize>,
    by_site: BTreeMap<u32, usize>,
}

impl Names {
    fn of(&mut self, site: u32, stacks: &CallStacks) -> usize {
        let Self { all, by_name, by_site } = self;
        *by_site.entry(site).or_insert_with(|| {
            *by_name.entry(name_of(site, stacks, false)).or_insert_with_key(|name| {
                all.push(name.clone());
                all.len() - 1
            })
        })
    }
}

/// Replays a trace up to the first failure, and returns every block with its call site. The start of a block is its
/// address; its name is not set yet.
fn placed(target: &mut dyn Target, trace: &Trace) -> Option<Vec<(MappedBlock, u32)>> {
    let mut blocks = Vec::new();
    let mut live: Vec<Option<(u64, usize)>> = vec![None; trace.allocations as usize];
    for (index, event) in trace.events.iter().enumerate() {
        match event {
            Event::Allocate(request) if request.size.is_zero() => {}
            Event::Allocate(request) => {
                let Ok(token) = target.allocate(request) else { break };
                live[request.id.index()] = Some((token, blocks.len()));
                let (to, start) = (trace.events.len(), Bytes::new(target.address(token)?));
                let block = MappedBlock { from: index, to, start, size: request.size, name: 0 };
                blocks.push((block, request.site));
            }
            Event::Free { id, .. } => {
                if let Some((token, place)) = live[id.index()].take() {
                    target.free(token);
                    blocks[place].0.to = index;
                }
            }
        }
    }
    Some(blocks)
}

/// Returns the address ranges that were ever used, in order: start, end, and the total bytes of all earlier ranges.
fn used_ranges(blocks: &[(MappedBlock, u32)]) -> Vec<(u64, u64, u64)> {
    let range = |&(MappedBlock { start, size, .. }, _): &(MappedBlock, u32)| {
        (start.get(), start.get().saturating_add(size.get()))
    };
    let mut ranges: Vec<_> = blocks.iter().map(range).collect();
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            Some(&mut (first, until, below)) => joined.push((start, end, below + (until - first))),
            None => joined.push((start, end, 0)),
        }
    }
    joined
}

/// Returns the bytes of used addresses below an address.
fn below(ranges: &[(u64, u64, u64)], address: Bytes) -> Bytes {
    let address = address.get();
    let place = ranges.partition_point(|&(start, ..)| start <= address);
    let range = place.checked_sub(1).map(|place| ranges[place]);
    Bytes::new(range.map_or(0, |(start, _, below)| below + (address - start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::script::Script;
    use crate::{POLICIES, policy};

    fn map(name: &str, script: &str) -> BlockMap {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        BlockMap::new(policy(name).unwrap(), &trace).unwrap()
    }

    #[test]
    fn blocks_have_the_times_of_their_life_and_no_two_overlap() {
        let script = "alloc a 3 MiB\nalloc b 2 MiB\nfree a\nalloc c 1 MiB\nalloc d 40 MiB\n";
        for policy in POLICIES {
            let map = map(policy.name, script);
            let lives: Vec<_> = map.blocks.iter().map(|block| (block.from, block.to)).collect();
            assert_eq!(lives, [(0, 2), (1, 5), (3, 5), (4, 5)], "{}", policy.name);
            for (place, left) in map.blocks.iter().enumerate() {
                assert!(left.start + left.size <= map.height, "{}", policy.name);
                for right in &map.blocks[place + 1..] {
                    let apart = left.start + left.size <= right.start
                        || right.start + right.size <= left.start;
                    assert!(apart || left.to <= right.from, "{}: {map:?}", policy.name);
                }
            }
        }
    }

    #[test]
    fn unused_addresses_between_segments_are_left_out() {
        let map = map("pytorch", "alloc a 30 MiB\nalloc b 50 MiB\n");
        assert_eq!(map.height, Bytes::mib(80));
        assert_eq!((map.left_out, map.name(&map.blocks[0])), (0, "(not recorded)"));
    }

    #[test]
    fn a_long_trace_keeps_its_largest_blocks() {
        let lines: Vec<_> =
            (1..=MOST + 7).map(|size| format!("alloc a{size} {size}\nfree a{size}\n")).collect();
        let map = map("recycle", &lines.concat());
        assert_eq!((map.blocks.len(), map.left_out), (MOST, 7));
        assert_eq!(map.blocks.iter().map(|block| block.size.get()).min(), Some(8));
    }
}
