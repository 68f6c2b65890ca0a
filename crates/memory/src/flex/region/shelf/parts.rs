//! The parts of a stream's ranges, with the periods in which they were freed.

use std::collections::BTreeMap;

use crate::Bytes;
use crate::flex::stream::Epoch;

/// Parts by their start. They fill the ranges of a stream, and adjacent parts of one period are one part.
#[derive(Debug, Default)]
pub(super) struct Parts {
    by_start: BTreeMap<Bytes, Part>,
    /// No part is older.
    oldest: Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    size: Bytes,
    epoch: Epoch,
}

impl Parts {
    /// Adds a part that was freed in the latest period.
    pub(super) fn add(&mut self, start: Bytes, size: Bytes, epoch: Epoch) {
        let (mut start, mut size) = (start, size);
        if self.by_start.is_empty() {
            self.oldest = epoch;
        }
        let below = self.by_start.range(..start).next_back().map(|(&below, &part)| (below, part));
        if let Some((below, part)) = below
            && below + part.size == start
            && part.epoch == epoch
        {
            (start, size) = (below, part.size + size);
        }
        if let Some(above) = self.by_start.get(&(start + size)).copied()
            && above.epoch == epoch
        {
            self.by_start.remove(&(start + size));
            size += above.size;
        }
        self.by_start.insert(start, Part { size, epoch });
    }

    /// Removes `at .. at + size`, and shortens the parts at both ends.
    pub(super) fn cut(&mut self, at: Bytes, size: Bytes) {
        let end = at + size;
        let below = self.by_start.range(..at).next_back().map(|(&start, &part)| (start, part));
        if let Some((start, part)) = below.filter(|(start, part)| *start + part.size > at) {
            self.by_start.insert(start, Part { size: at - start, ..part });
            self.keep_above(end, start, part);
        }
        while let Some((&start, &part)) = self.by_start.range(at..end).next() {
            self.by_start.remove(&start);
            self.keep_above(end, start, part);
        }
    }

    /// Keeps the rest of a removed part above `end`.
    fn keep_above(&mut self, end: Bytes, start: Bytes, part: Part) {
        let top = start + part.size;
        if top > end {
            self.by_start.insert(end, Part { size: top - end, ..part });
        }
    }

    /// Returns the starts and sizes of the parts of a period and of all earlier ones. The caller cuts them.
    pub(super) fn until(&mut self, epoch: Epoch) -> Vec<(Bytes, Bytes)> {
        if self.oldest > epoch {
            return Vec::new();
        }
        self.oldest = epoch + 1;
        let parts = self.by_start.iter().filter(|(_, part)| part.epoch <= epoch);
        parts.map(|(&start, part)| (start, part.size)).collect()
    }
}
