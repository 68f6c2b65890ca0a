//! Ranges behind a block, which the block may take to grow.

use crate::Bytes;
use crate::flex::region::Region;
use crate::flex::resize::error::Obstacle;
use crate::flex::tag::Tag;
use crate::index::Block;

impl Region {
    /// Returns the length of the ranges from `at` on that a stream may take, at most `length`.
    pub(in crate::flex::region) fn reach(
        &mut self,
        stream: u32,
        at: Bytes,
        length: Bytes,
    ) -> Bytes {
        let mut reach = Bytes::ZERO;
        while reach < length {
            let next = at + reach;
            let own = self.shelf.of(stream).and_then(|ranges| ranges.by_start.get(&next));
            let own = own.map(|range| range.size);
            let free = || self.index.hole_at(next).map(|hole| hole.offset + hole.size - next);
            let Some(part) = own.or_else(free) else { return reach };
            reach += part;
        }
        length
    }

    /// Returns what is at `at`, where the ranges end that a stream may take.
    pub(in crate::flex::region) fn obstacle(&self, at: Bytes) -> Obstacle {
        let waits = self.shelf.streams.iter().any(|ranges| ranges.by_start.contains_key(&at));
        match () {
            () if at >= self.index.capacity() => Obstacle::EndOfRegion,
            () if waits => Obstacle::Stream,
            () => Obstacle::Block,
        }
    }

    /// Turns `length` bytes from `at` on, which the stream may take, into a block without an owner.
    pub(in crate::flex::region) fn take_behind(
        &mut self,
        stream: u32,
        at: Bytes,
        length: Bytes,
    ) -> Block {
        let end = at + length;
        let own = self.shelf.of(stream).and_then(|ranges| {
            let (&start, range) = ranges.by_start.range(at..end).next_back()?;
            Some((start + range.size).min(end) - at)
        });
        let key = self.take_run(stream, at, length);
        self.shelf.bytes -= length;
        if let Some(own) = own {
            // If there is no memory for the range, all up to the stream's last part waits for the stream again.
            self.own_parts.insert(key, own);
        }
        let tag = Tag::new(crate::policy::Kind::Tensor, stream).coming(true);
        self.index.set_tag(key, tag.bits()).expect("it was taken just now");
        self.index.get(key).expect("it was taken just now")
    }
}
