//! The part of the TCM that a kernel's tiles take.

use std::collections::VecDeque;
use std::ops::Range;

use cubeyard_device::pe::CommandId;
use cubeyard_memory::Bytes;
use cubeyard_memory::free_list::{Checking, FreeList};

/// Places are whole lines of the TCM.
const LINE: u64 = 64;

/// Who has which place, and which commands under way use it.
#[derive(Debug)]
pub(super) struct Scratch {
    free: FreeList,
    /// The places that the last commands use, as far as they can be under way.
    recent: VecDeque<(CommandId, Range<u64>)>,
    window: u32,
    peak: u64,
    /// The buffers of the last tiled operation.
    buffers: Option<Range<u64>>,
}

impl Scratch {
    pub(super) fn new(bytes: Bytes, window: u32) -> Self {
        let free = FreeList::new(bytes, Checking::Trusted);
        Self { free, recent: VecDeque::new(), window, peak: 0, buffers: None }
    }

    /// Takes a place, or says why there is none.
    pub(super) fn allocate(&mut self, bytes: u64) -> Result<Range<u64>, String> {
        let size = bytes.max(1).next_multiple_of(LINE);
        let mut offset = self.free.allocate(Bytes::new(size));
        if offset.is_err()
            && let Some(buffers) = self.buffers.take()
        {
            self.release(&buffers);
            offset = self.free.allocate(Bytes::new(size));
        }
        let offset = offset.map_err(|_| self.refusal(bytes))?;
        self.peak = self.peak.max(self.free.used().get());
        Ok(offset.get()..offset.get() + size)
    }

    /// Takes a place for the buffers of a tiled operation. It is given back when the next one has taken its own,
    /// so that this one can begin while the other still stores, or when there is no other room.
    pub(super) fn allocate_buffers(&mut self, bytes: u64) -> Result<Range<u64>, String> {
        let place = self.allocate(bytes)?;
        if let Some(before) = self.buffers.replace(place.clone()) {
            self.release(&before);
        }
        Ok(place)
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

    pub(super) fn release(&mut self, place: &Range<u64>) {
        let size = Bytes::new(place.end - place.start);
        self.free.free(Bytes::new(place.start), size).expect("it was allocated");
    }

    /// Notes that a command uses a place.
    pub(super) fn touch(&mut self, command: CommandId, place: &Range<u64>) {
        self.recent.push_back((command, place.clone()));
        while self.recent.front().is_some_and(|(old, _)| old + self.window < command) {
            self.recent.pop_front();
        }
    }

    /// The commands that may be under way when `command` begins, and use any of a place.
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

    /// The most that was taken at once.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// How much is taken.
    pub(super) fn used(&self) -> u64 {
        self.free.used().get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_take_turns_as_long_as_there_is_room() {
        let mut scratch = Scratch::new(Bytes::new(256), 16);
        let mut before = scratch.allocate_buffers(64).unwrap();
        for _ in 0..8 {
            let place = scratch.allocate_buffers(64).unwrap();
            assert!(place.end <= before.start || before.end <= place.start);
            assert_eq!(scratch.used(), 64);
            before = place;
        }
        // Without other room, those of the last make way.
        assert_eq!(scratch.allocate(256), Ok(0..256));
        let refusal = scratch.allocate_buffers(64).unwrap_err();
        assert!(refusal.starts_with("no room for a tile of 64 B"), "{refusal}");
    }
}
