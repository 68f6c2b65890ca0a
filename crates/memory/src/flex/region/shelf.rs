//! Freed ranges that only one stream may take, because the stream may still access them.
//!
//! To the index, a range on the shelf is a live block without an owner. Adjacent ranges of one stream are one range. Its
//! parts become free for all streams when an event of the stream has passed that was recorded after their free (see
//! [`stream`](crate::flex::stream)).

#![expect(clippy::inline_always, reason = "parts of the path of a request")]

mod apart;
mod behind;
mod parts;

use std::collections::{BTreeMap, BTreeSet};

use super::{Note, Region, RegionState};
use crate::Bytes;
use crate::flex::stream::Epoch;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey, FreeIndex};
use crate::policy::Request;
use parts::Parts;

/// The ranges of one region that wait for their streams.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Ranges of every stream that has had any; programs use few streams.
    streams: Vec<StreamRanges>,
    /// Length of all ranges together.
    bytes: Bytes,
    /// Number of passed events ([`Streams::passes`](crate::flex::stream::Streams::passes)) that the ranges take into
    /// account.
    passes: u64,
}

/// The ranges of one stream.
#[derive(Debug)]
struct StreamRanges {
    stream: u32,
    by_start: BTreeMap<Bytes, Range>,
    /// Sizes and starts.
    by_size: BTreeSet<(Bytes, Bytes)>,
    /// Periods of the parts of the ranges.
    parts: Parts,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    key: BlockKey,
    size: Bytes,
}

impl StreamRanges {
    fn new(stream: u32) -> Self {
        let parts = Parts::default();
        Self { stream, by_start: BTreeMap::new(), by_size: BTreeSet::new(), parts }
    }

    fn insert(&mut self, start: Bytes, range: Range) {
        self.by_size.insert((range.size, start));
        self.by_start.insert(start, range);
    }

    fn remove(&mut self, start: Bytes) -> Range {
        let range = self.by_start.remove(&start).expect("a range on the shelf has its start");
        self.by_size.remove(&(range.size, start));
        range
    }

    /// Returns the start of the range that ends at `end`.
    fn ending_at(&self, end: Bytes) -> Option<Bytes> {
        let (&start, range) = self.by_start.range(..end).next_back()?;
        (start + range.size == end).then_some(start)
    }

    /// Returns the smallest range with room for `size` bytes at a multiple of `alignment`, and the start of the room.
    fn best(&self, size: Bytes, alignment: Bytes) -> Option<(Bytes, Bytes)> {
        self.by_size.range((size, Bytes::ZERO)..).find_map(|&(length, start)| {
            let at = start.align_up(alignment)?;
            fits(at, size, start + length).then_some((start, at))
        })
    }

    /// Adds the range of a live block, and merges it with the stream's adjacent ranges.
    fn add(&mut self, index: &mut FreeIndex, block: &Block, epoch: Epoch) {
        self.parts.add(block.offset, block.size, epoch);
        let (mut start, mut range) = (block.offset, Range { key: block.key, size: block.size });
        if let Some(below) = self.ending_at(start) {
            let low = self.remove(below);
            index.fuse(low.key, range.key);
            range = Range { key: low.key, size: low.size + range.size };
            start = below;
        }
        let end = start + range.size;
        if self.by_start.contains_key(&end) {
            let high = self.remove(end);
            index.fuse(range.key, high.key);
            range.size += high.size;
        }
        self.insert(start, range);
    }

    /// Takes `at .. at + size` out of the range at `start`, and leaves the rest on the shelf. Returns the taken block.
    fn take(&mut self, index: &mut FreeIndex, start: Bytes, at: Bytes, size: Bytes) -> BlockKey {
        self.parts.cut(at, size);
        let mut range = self.remove(start);
        let end = start + range.size;
        if at > start {
            let rest = index.split(range.key, at - start);
            self.insert(start, Range { size: at - start, ..range });
            range.key = rest.key;
        }
        if end > at + size {
            let rest = index.split(range.key, size);
            self.insert(at + size, Range { key: rest.key, size: rest.size });
        }
        range.key
    }
}

impl Shelf {
    pub(super) fn len(&self) -> usize {
        self.streams.iter().map(|stream| stream.by_start.len()).sum()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_zero()
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn of(&mut self, stream: u32) -> Option<&mut StreamRanges> {
        self.streams.iter_mut().find(|ranges| ranges.stream == stream)
    }

    /// Returns the ranges of a stream, which may be its first.
    fn of_any(&mut self, stream: u32) -> &mut StreamRanges {
        let known = self.streams.iter().position(|ranges| ranges.stream == stream);
        let at = known.unwrap_or_else(|| {
            self.streams.push(StreamRanges::new(stream));
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }
}

impl Region {
    /// Puts the range of a freed block on the shelf of a stream.
    pub(super) fn shelve(&mut self, block: &Block, stream: u32, epoch: Epoch) {
        self.strategy.forget(block);
        let tag = Tag::from_bits(block.tag).without_note().coming(false).shelved();
        self.index.set_tag(block.key, tag.bits()).expect("the block is live");
        self.shelf.bytes += block.size;
        self.shelf.of_any(stream).add(&mut self.index, block, epoch);
    }

    /// Frees the parts of ranges that their streams have passed. `passed` returns the last period that a stream has
    /// passed.
    fn sweep(&mut self, passed: impl Fn(u32) -> Option<Epoch>) {
        for ranges in &mut self.shelf.streams {
            let Some(epoch) = passed(ranges.stream) else { continue };
            for (at, size) in ranges.parts.until(epoch) {
                let range = ranges.by_start.range(..=at).next_back();
                let (&start, _) = range.expect("a part lies in a range");
                let key = ranges.take(&mut self.index, start, at, size);
                self.shelf.bytes -= size;
                self.index.free(key).expect("a range on the shelf is live");
            }
        }
    }

    /// Returns the size and the alignment of a request's block.
    fn room_for(&self, request: &Request) -> Option<(Bytes, Bytes)> {
        let granule = self.index.granule();
        let size = request.size.align_up(granule)?.max(granule);
        Some((size, request.alignment.max(granule)))
    }

    /// Places a request on the shelf of its stream: the smallest range that fits.
    fn place_on_shelf(&mut self, request: &Request, tag: Tag) -> Option<Block> {
        let (size, alignment) = self.room_for(request)?;
        let ranges = self.shelf.of(request.stream)?;
        let (start, at) = ranges.best(size, alignment)?;
        let key = ranges.take(&mut self.index, start, at, size);
        Some(self.hand_over(key, size, request, tag))
    }

    /// Places a request over ranges of its stream and the free ranges between and beside them.
    fn place_across(&mut self, request: &Request, tag: Tag) -> Option<Block> {
        let (size, alignment) = self.room_for(request)?;
        let run = self.smallest_run(request.stream, size, alignment)?;
        let key = self.take_run(request.stream, run, size);
        Some(self.hand_over(key, size, request, tag))
    }

    fn hand_over(&mut self, key: BlockKey, size: Bytes, request: &Request, tag: Tag) -> Block {
        self.shelf.bytes -= size;
        let block = self.index.reassign(key, request.size, tag.bits());
        self.strategy.adopt(request, &block);
        block
    }

    /// Returns the place for `size` bytes in the shortest run of ranges that the stream may take.
    fn smallest_run(&mut self, stream: u32, size: Bytes, alignment: Bytes) -> Option<Bytes> {
        let Self { index, shelf, granules, .. } = self;
        let ranges = shelf.streams.iter().find(|ranges| ranges.stream == stream)?;
        let mut best: Option<(Bytes, Bytes)> = None;
        let mut end = Bytes::ZERO;
        for (&start, range) in &ranges.by_start {
            if start < end {
                continue;
            }
            let low = index.hole_below_block(range.key).map_or(start, |hole| hole.offset);
            end = run_end(index, ranges, start);
            let at = low.align_up(alignment).filter(|at| fits(*at, size, end));
            let backed = |at| granules.as_ref().is_none_or(|granules| granules.is_backed(at, size));
            if let Some(at) = at.filter(|&at| backed(at))
                && best.is_none_or(|(length, _)| end - low < length)
            {
                best = Some((end - low, at));
            }
        }
        best.map(|(_, at)| at)
    }

    /// Turns `at .. at + size`, which the stream may take, into one live block.
    fn take_run(&mut self, stream: u32, at: Bytes, size: Bytes) -> BlockKey {
        let (mut next, end) = (at, at + size);
        let mut taken: Option<BlockKey> = None;
        while next < end {
            let part = self.take_part(stream, next, end);
            next = part.offset + part.size;
            match taken {
                None => taken = Some(part.key),
                Some(low) => self.index.fuse(low, part.key),
            }
        }
        taken.expect("a block has a size")
    }

    /// Takes the part of a run that starts at `at` and lies in one range.
    fn take_part(&mut self, stream: u32, at: Bytes, end: Bytes) -> Block {
        if let Some(hole) = self.index.hole_at(at) {
            let size = (hole.offset + hole.size).min(end) - at;
            self.shelf.bytes += size;
            return self.index.allocate_at(at, size, 0).expect("the range is free");
        }
        let ranges = self.shelf.of(stream).expect("the run has ranges of the stream");
        let (&start, range) =
            ranges.by_start.range(..=at).next_back().expect("it is of the stream");
        let size = (start + range.size).min(end) - at;
        let key = ranges.take(&mut self.index, start, at, size);
        self.index.get(key).expect("it was taken just now")
    }
}

fn fits(at: Bytes, size: Bytes, end: Bytes) -> bool {
    at.checked_add(size).is_some_and(|top| top <= end)
}

/// Returns the end of the run of a stream's ranges and free ranges that starts at a range of the stream.
fn run_end(index: &mut FreeIndex, ranges: &StreamRanges, start: Bytes) -> Bytes {
    let mut end = start;
    while let Some(range) = ranges.by_start.get(&end) {
        end += range.size;
        end += index.hole_above_block(range.key).map_or(Bytes::ZERO, |hole| hole.size);
    }
    end
}

impl RegionState {
    /// Frees the ranges whose streams have passed, after `passes` events have passed. `last` returns the last period that
    /// a stream has passed.
    pub(crate) fn sweep(&mut self, passes: u64, last: impl Fn(u32) -> Option<Epoch>) {
        let Some(region) = &mut self.region else { return };
        region.sweep(last);
        region.shelf.passes = passes;
        self.count_splits();
    }

    /// Returns whether ranges wait for streams, and events may have passed since they were last swept.
    #[inline(always)]
    pub(crate) fn may_sweep(&self, passes: u64) -> bool {
        let Some(region) = &self.region else { return false };
        !region.shelf.is_empty() && region.shelf.passes != passes
    }

    /// Places a request in ranges of its own stream.
    #[inline(always)]
    pub(super) fn place_in_order(
        &mut self,
        request: &Request,
        place: fn(&mut Region, &Request, Tag) -> Option<Block>,
    ) -> Option<Block> {
        let region = self.region.as_mut().filter(|region| !region.shelf.is_empty())?;
        let (note, tag) = Note::of(request, region.index.granule());
        let block = place(region, request, tag)?;
        self.enter_placed(&block, note);
        Some(block)
    }

    /// Places a request on the shelf of its stream.
    #[inline(always)]
    pub(super) fn place_shelved(&mut self, request: &Request) -> Option<Block> {
        self.place_in_order(request, Region::place_on_shelf)
    }

    /// Places a request over several adjacent ranges that its stream may take.
    #[cold]
    pub(super) fn place_run(&mut self, request: &Request) -> Option<Block> {
        self.place_in_order(request, Region::place_across)
    }
}
