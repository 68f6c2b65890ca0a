//! `Growable`: one long range of addresses with memory only where a block has been.

use std::collections::BTreeMap;

use super::Target;
use crate::Bytes;
use crate::index::{BlockKey, Fit, FreeIndex};
use crate::trace::Allocate;

/// The addresses: 64 TiB, more than any device has memory.
const SPACE: Bytes = Bytes::new(1 << 46);
/// Blocks are multiples of this.
const BLOCK_GRANULE: Bytes = Bytes::new(128);
/// Memory is committed in multiples of this.
const COMMIT_GRANULE: Bytes = Bytes::mib(2);

/// A free-space index on addresses that get their memory when a block first touches them, and keep
/// it.
#[derive(Debug)]
pub(super) struct Growable {
    index: FreeIndex,
    fit: Fit,
    /// The block of each allocation that is live. An allocation's number is its token.
    blocks: Vec<Option<BlockKey>>,
    /// Where memory was committed: ranges, none of which touch, by their start.
    committed: BTreeMap<Bytes, Bytes>,
    reserved: Bytes,
}

impl Growable {
    /// An empty range for a trace with this many allocations.
    pub(super) fn new(fit: Fit, allocations: u32) -> Self {
        Self {
            index: FreeIndex::new(SPACE, BLOCK_GRANULE),
            fit,
            blocks: vec![None; allocations as usize],
            committed: BTreeMap::new(),
            reserved: Bytes::ZERO,
        }
    }

    /// Commits the granules from `start` to `end` that have no memory yet.
    fn commit(&mut self, start: Bytes, end: Bytes) {
        let mut start = start.align_down(COMMIT_GRANULE);
        let mut end = end.align_up(COMMIT_GRANULE).expect("a space is shorter than 64 bits");
        while let Some((&from, &to)) = self.committed.range(..=end).next_back()
            && to >= start
        {
            if from <= start && end <= to {
                return;
            }
            self.committed.remove(&from);
            self.reserved -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        self.committed.insert(start, end);
        self.reserved += end - start;
    }

    fn out_of_memory(&self, asked: Bytes) -> String {
        let (free, largest) = (self.index.free_bytes(), self.index.largest());
        format!(
            "out of memory: asked for {asked}; {free} free of {SPACE}, at most {largest} in one piece"
        )
    }
}

impl Target for Growable {
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let block = self.index.allocate(self.fit, request.size, 0);
        let block = block.ok_or_else(|| self.out_of_memory(request.size))?;
        self.commit(block.offset, block.offset + block.size);
        self.blocks[request.id.index()] = Some(block.key);
        Ok(u64::from(request.id.0))
    }

    fn free(&mut self, token: u64) {
        let place = usize::try_from(token).expect("a token comes from `allocate`");
        let key = self.blocks[place].take().expect("a block is freed once");
        self.index.free(key).expect("its key is of this index, and was not used before");
    }

    fn reserved(&self) -> Bytes {
        self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::run;
    use crate::trace::script::Script;

    fn reserved(fit: Fit, script: &str) -> Bytes {
        let trace = Script::parse(script).unwrap().to_trace("test").unwrap();
        let mut target = Growable::new(fit, trace.allocations);
        assert_eq!(run(&trace, &mut target, &mut |_| {}).failed, None);
        target.reserved()
    }

    #[test]
    fn a_granule_is_committed_once_a_block_has_touched_it() {
        assert_eq!(reserved(Fit::First, "alloc a 1\nalloc b 2097024\n"), Bytes::mib(2));
        assert_eq!(reserved(Fit::First, "alloc a 1\nalloc b 2097025\n"), Bytes::mib(4));
        assert_eq!(reserved(Fit::First, "alloc a 5 MiB\nfree a\nalloc b 4 MiB\n"), Bytes::mib(6));
    }

    #[test]
    fn ranges_of_committed_granules_join() {
        let mut target = Growable::new(Fit::First, 0);
        for (start, end, reserved) in [(0, 2, 2), (8, 10, 4), (4, 6, 6), (3, 9, 10), (0, 12, 12)] {
            target.commit(Bytes::mib(start), Bytes::mib(end));
            assert_eq!(target.reserved, Bytes::mib(reserved), "{start}..{end}");
        }
        assert_eq!(target.committed.len(), 1);
    }

    #[test]
    fn a_block_longer_than_the_space_is_refused_with_the_figures() {
        let trace = Script::parse("alloc a 70368744177665\n").unwrap().to_trace("test").unwrap();
        let outcome = run(&trace, &mut Growable::new(Fit::Best, 1), &mut |_| {});
        let message = outcome.failed.unwrap().message;
        assert!(message.contains("64.00 TiB free of 64.00 TiB"), "{message}");
    }
}
