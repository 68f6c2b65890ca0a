//! The part of the TCM that holds a kernel's tiles.

use std::collections::VecDeque;
use std::ops::Range;

use cubeyard_device::pe::CommandId;
use cubeyard_memory::Bytes;
use cubeyard_memory::free_list::{Checking, FreeList};

/// Allocation granularity, in bytes: a line of the TCM.
const LINE: u64 = 64;

/// Allocations, and the commands in flight that use them.
#[derive(Debug)]
pub(super) struct Scratch {
    free: FreeList,
    /// Released ranges, oldest first. They are reused as late as possible: commands in flight may still use them, and
    /// the next owner waits for these commands.
    resting: VecDeque<Range<u64>>,
    /// Ranges that recent commands use, as long as these commands may be in flight.
    recent: VecDeque<(CommandId, Range<u64>)>,
    window: u32,
    /// Number of message slots that were used as tiles so far.
    slots: u64,
}

impl Scratch {
    pub(super) fn new(bytes: Bytes, window: u32) -> Self {
        let free = FreeList::new(bytes, Checking::Trusted);
        Self { free, resting: VecDeque::new(), recent: VecDeque::new(), window, slots: 0 }
    }

    /// Allocates a range; the error states why none fits.
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<Range<u64>, String> {
        let size = bytes.max(1).next_multiple_of(LINE);
        loop {
            if let Ok(offset) = self.free.allocate(Bytes::new(size)) {
                return Ok(offset.get()..offset.get() + size);
            }
            let place = self.resting.pop_front().ok_or_else(|| self.refusal(bytes))?;
            let size = Bytes::new(place.end - place.start);
            self.free.free(Bytes::new(place.start), size).expect("it was allocated");
        }
    }

    /// Returns whether two ranges of this size fit, once all released ranges are free.
    pub(super) fn has_room_for_two(&self, bytes: u64) -> bool {
        let size = Bytes::new(bytes.max(1).next_multiple_of(LINE));
        let mut free = self.free.clone();
        for place in &self.resting {
            let released = Bytes::new(place.end - place.start);
            free.free(Bytes::new(place.start), released).expect("it was allocated");
        }
        (0..2).all(|_| free.allocate(size).is_ok())
    }

    /// Returns a separate range for a tile in a message slot, which does not count towards the memory of the kernel's
    /// tiles.
    pub(super) fn slot(&mut self) -> Range<u64> {
        self.slots += 1;
        let start = self.free.capacity().get() + self.slots * LINE;
        start..start + LINE
    }

    fn refusal(&self, bytes: u64) -> String {
        let (all, free) = (self.free.capacity(), self.free.free_bytes());
        let wanted = Bytes::new(bytes);
        if wanted > all {
            return format!("a tile of {wanted}, but the TCM has {all} for the tiles of a kernel");
        }
        let largest = self.free.largest();
        format!(
            "no room for a tile of {wanted}: of {all}, {free} are free, {largest} at most in one piece"
        )
    }

    /// Releases a range. The range of a message slot is ignored, since it is not part of the kernel's memory.
    pub(super) fn release(&mut self, place: &Range<u64>) {
        if place.start < self.free.capacity().get() {
            self.resting.push_back(place.clone());
        }
    }

    /// Records that a command uses a range.
    pub(super) fn touch(&mut self, command: CommandId, place: &Range<u64>) {
        self.recent.push_back((command, place.clone()));
        while self.recent.front().is_some_and(|(old, _)| old + self.window < command) {
            self.recent.pop_front();
        }
    }

    /// Returns the commands before `command` that may still be in flight and use part of a range.
    pub(super) fn users(
        &self,
        command: CommandId,
        place: &Range<u64>,
    ) -> impl Iterator<Item = CommandId> {
        let overlaps = |used: &Range<u64>| used.start < place.end && place.start < used.end;
        let under_way = move |old: CommandId| old < command && old + self.window > command;
        let uses = move |(old, used): &(CommandId, Range<u64>)| under_way(*old) && overlaps(used);
        self.recent.iter().filter(move |recent| uses(recent)).map(|(old, _)| *old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_only_when_there_is_no_other() {
        let mut scratch = Scratch::new(Bytes::new(4 * LINE), 16);
        let mut places = Vec::new();
        for _ in 0..5 {
            let place = scratch.allocate(LINE).unwrap();
            scratch.release(&place);
            places.push(place.start / LINE);
        }
        assert_eq!(places, [0, 1, 2, 3, 0]);
        let all = scratch.allocate(4 * LINE).unwrap();
        assert_eq!(all, 0..4 * LINE);
        let what = scratch.allocate(1).unwrap_err();
        assert_eq!(
            what,
            "no room for a tile of 1 B: of 256 B, 0 B are free, 0 B at most in one piece"
        );
    }
}
