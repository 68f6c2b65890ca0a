//! New memory for streams, each in a part of its own of a region.

use super::{StreamRanges, fits};
use crate::Bytes;
use crate::flex::region::{Note, Region, RegionState};
use crate::flex::stream::Freed;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey, FreeIndex};
use crate::policy::Request;

/// Number of parts of a growable region; each stream takes new memory in a part of its own.
const PARTS: u64 = 64;

impl Region {
    /// Returns the number of a stream among the streams of the region, which it joins if it is new.
    fn stream_number(&mut self, stream: u32) -> usize {
        let known = self.streams.iter().position(|&other| other == stream);
        known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        })
    }

    /// Places a request for which memory has to be committed. Streams that lie apart leave longer ranges, so a request
    /// goes behind the blocks in its stream's part of the region, over the free range at the end.
    fn place_at_end(&mut self, request: &Request, tag: Tag) -> Option<Block> {
        let (size, alignment) = self.room_for(request)?;
        let at = self.end_of_stream(request.stream)?.align_up(alignment)?;
        let end = run_end_from(&mut self.index, self.shelf.of(request.stream), at);
        if !fits(at, size, end) {
            return None;
        }
        let own = self.shelf.of(request.stream).and_then(|ranges| ranges.by_start.get(&at));
        let own = own.map(|range| range.size.min(size));
        let key = self.take_run(request.stream, at, size);
        let block = self.hand_over(key, size, request, tag.coming(true));
        if let Some(own) = own {
            self.own_parts.insert(block.key, own);
        }
        Some(block)
    }

    /// Frees a block for which there was no memory. The part that was its stream's stays the stream's.
    pub(in crate::flex::region) fn free_placed(
        &mut self,
        block: &Block,
        freed: &Freed,
        stream: u32,
    ) {
        let Some(own) = self.own_parts.remove(&block.key) else {
            return self.strategy.free(&mut self.index, block);
        };
        self.strategy.forget(block);
        if own < block.size {
            let rest = self.index.split(block.key, own);
            self.index.free_block(&rest);
        }
        let own = self.index.get(block.key).expect("the block is live");
        match freed {
            Freed::InOrder(epoch) => self.shelve(&own, stream, *epoch),
            Freed::ForAll | Freed::After(_) => self.index.free_block(&own),
        }
    }

    /// Returns the start of the memory that a stream may take at the end of its part.
    fn end_of_stream(&mut self, stream: u32) -> Option<Bytes> {
        let number = self.streams.iter().position(|&other| other == stream)? as u64 % PARTS;
        let granule = self.granules.as_ref()?.size();
        let part = Bytes::new(self.handle.size.get() / PARTS).align_down(granule);
        let base = Bytes::new(part.get() * number);
        let hole = self.index.hole_below(base + part, granule)?;
        if hole.offset <= base {
            return Some(base);
        }
        let own = self.shelf.of(stream).and_then(|ranges| ranges.ending_at(hole.offset));
        Some(own.unwrap_or(hole.offset))
    }
}

/// Returns the end of the run of a stream's ranges and free ranges that contains `at`.
fn run_end_from(index: &mut FreeIndex, ranges: Option<&mut StreamRanges>, at: Bytes) -> Bytes {
    let range = ranges.and_then(|ranges| ranges.by_start.get(&at).map(|range| at + range.size));
    let hole = index.hole_at(range.unwrap_or(at));
    hole.map(|hole| hole.offset + hole.size).or(range).unwrap_or(at)
}

impl RegionState {
    /// Places a request, for which memory has to be committed, at the end of its stream's part of the region.
    pub(in crate::flex::region) fn place_apart(&mut self, request: &Request) -> Option<BlockKey> {
        let region = self.region.as_mut()?;
        let (note, tag) = Note::of(request, region.index.granule());
        let block = region.place_at_end(request, tag)?;
        if let Some(note) = note {
            self.notes.insert(block.key, note);
        }
        Some(block.key)
    }

    /// Returns whether the region recycles memory and ranges of other streams wait in it. (If streams pass at once, they
    /// share all memory, and lie closer together. Without recycling, they would hold more memory apart than together.)
    pub(in crate::flex::region) fn grows_apart(&mut self, stream: u32) -> bool {
        let region = self.region.as_mut().filter(|region| region.recycles);
        region.is_some_and(|region| {
            region.stream_number(stream);
            let waits =
                |ranges: &StreamRanges| ranges.stream != stream && !ranges.by_start.is_empty();
            region.shelf.streams.iter().any(waits)
        })
    }
}
