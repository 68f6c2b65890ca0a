//! The parts of a stream's ranges, with the periods in which they were freed.

use crate::Bytes;
use crate::flex::stream::Epoch;

/// Parts in address order. They fill the ranges of a stream, and adjacent parts of one period are one part. (A vector,
/// since there are few: a map of a few hundred parts takes more time.)
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: Vec<Part>,
    /// No part is older.
    oldest: Epoch,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    start: Bytes,
    end: Bytes,
    epoch: Epoch,
}

impl Parts {
    /// Adds a part that was freed in the latest period.
    pub(super) fn add(&mut self, start: Bytes, size: Bytes, epoch: Epoch) {
        if self.parts.is_empty() {
            self.oldest = epoch;
        }
        let end = start + size;
        let place = self.parts.partition_point(|part| part.start < start);
        let joins_below =
            place > 0 && self.parts[place - 1].end == start && self.parts[place - 1].epoch == epoch;
        let above = self.parts.get(place);
        let joins_above = above.is_some_and(|part| part.start == end && part.epoch == epoch);
        match (joins_below, joins_above) {
            (true, true) => self.parts[place - 1].end = self.parts.remove(place).end,
            (true, false) => self.parts[place - 1].end = end,
            (false, true) => self.parts[place].start = start,
            (false, false) => self.parts.insert(place, Part { start, end, epoch }),
        }
    }

    /// Removes `at .. at + size`, and shortens the parts at both ends.
    pub(super) fn cut(&mut self, at: Bytes, size: Bytes) {
        let end = at + size;
        let first = self.parts.partition_point(|part| part.end <= at);
        let after = self.parts[first..].partition_point(|part| part.start < end) + first;
        let cut = &self.parts[first..after];
        let low = cut.first().filter(|part| part.start < at).map(|&part| Part { end: at, ..part });
        let high =
            cut.last().filter(|part| part.end > end).map(|&part| Part { start: end, ..part });
        self.parts.splice(first..after, low.into_iter().chain(high));
    }

    /// Returns the starts and sizes of the parts of a period and of all earlier ones. The caller cuts them.
    pub(super) fn until(&mut self, epoch: Epoch) -> Vec<(Bytes, Bytes)> {
        if self.oldest > epoch {
            return Vec::new();
        }
        self.oldest = epoch + 1;
        let parts = self.parts.iter().filter(|part| part.epoch <= epoch);
        parts.map(|part| (part.start, part.end - part.start)).collect()
    }
}
