//! Faults of programs that do not stop them: unmapped accesses to physical memory outside the launch's arguments, and
//! messages that were never received.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_sim::NodeId;

use crate::message::{Direction, RequestId, Rows};
use crate::pe::{CommandId, Dma};
use crate::request::PeRef;

/// Largest number of notices kept for one program on a PE.
const MOST_OF_PROGRAM: usize = 8;

/// Largest number of notices kept in total.
const MOST: usize = 4096;

/// Fault of a program's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Launch of the program.
    pub launch: RequestId,
    /// The `PE_CPU` that runs the program.
    pub pe: NodeId,
    /// Command that caused the fault.
    pub command: CommandId,
    /// Kind of the fault, with its details.
    pub what: Noticed,
}

/// Kind of a program's fault, with its details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// An access to unmapped addresses was made to physical addresses that belong to no argument of the launch.
    Stray {
        /// Direction of the access.
        direction: Direction,
        /// Address range, end exclusive.
        range: Range<u64>,
    },
    /// A message that the command sent was never received, and was dropped.
    Unreceived {
        /// PE that the message was sent to.
        to: PeRef,
        /// Length of the message, in bytes.
        bytes: u64,
    },
}

/// Notices so far, and the physical memory that launches may access.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Physical memory of the arguments of launches in flight, as sorted ranges.
    given: BTreeMap<RequestId, Rc<[Range<u64>]>>,
    found: Vec<Notice>,
}

impl Notices {
    /// Records the physical memory that a launch may access.
    pub(crate) fn give(&mut self, launch: RequestId, mut ranges: Vec<Range<u64>>) {
        ranges.sort_unstable_by_key(|range| range.start);
        self.given.insert(launch, ranges.into());
    }

    /// Checks an access to physical memory by an unmapped address. Does not check launches without recorded memory.
    pub(crate) fn fell_through(
        &mut self,
        launch: RequestId,
        pe: NodeId,
        command: CommandId,
        dma: &Dma,
    ) {
        let Some(given) = self.given.get(&launch) else { return };
        let Dma { direction, address, bytes, rows } = *dma;
        let range = address..address.saturating_add(dma.extent());
        let rows = rows.unwrap_or(Rows { bytes, pitch: 0 });
        let mut pieces =
            rows.segments(0, bytes).map(|(at, bytes)| address + at..address + at + bytes);
        if !is_within(&range, given) && !pieces.all(|piece| is_within(&piece, given)) {
            let what = Noticed::Stray { direction, range };
            self.note(Notice { launch, pe, command, what });
        }
    }

    pub(crate) fn note(&mut self, notice: Notice) {
        let is_same = |other: &&Notice| (other.launch, other.pe) == (notice.launch, notice.pe);
        let of_program = self.found.iter().filter(is_same).count();
        if of_program < MOST_OF_PROGRAM && self.found.len() < MOST {
            self.found.push(notice);
        }
    }

    /// Removes and returns the notices of the selected launches.
    pub(crate) fn take(&mut self, mut of: impl FnMut(RequestId) -> bool) -> Vec<Notice> {
        self.found.extract_if(.., |notice| of(notice.launch)).collect()
    }

    /// Removes the recorded memory of a launch that has ended.
    pub(crate) fn forget(&mut self, launch: RequestId) {
        self.given.remove(&launch);
    }
}

/// Returns whether a range is covered by the `given` ranges, which are sorted and may touch.
fn is_within(range: &Range<u64>, given: &[Range<u64>]) -> bool {
    let mut at = range.start;
    while at < range.end {
        let place = given.partition_point(|given| given.start <= at);
        match given[..place].last().filter(|given| given.end > at) {
            Some(given) => at = given.end,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stray(notices: &mut Notices, launch: usize, range: Range<u64>) {
        let (launch, pe) = (RequestId::new(launch), NodeId::new(0));
        let (direction, bytes) = (Direction::Read, range.end - range.start);
        let dma = Dma { direction, address: range.start, bytes, rows: None };
        notices.fell_through(launch, pe, 0, &dma);
    }

    #[test]
    fn only_accesses_beyond_what_was_given_are_noticed() {
        let mut notices = Notices::default();
        notices.give(RequestId::new(1), vec![200..300, 0..100, 100..150]);
        for range in [0..150, 210..300, 40..41] {
            stray(&mut notices, 1, range);
        }
        stray(&mut notices, 2, 0..1);
        assert_eq!(notices.take(|_| true), []);
        for range in [0..151, 199..200, 250..301, 500..501] {
            stray(&mut notices, 1, range);
        }
        assert_eq!(notices.take(|launch| launch == RequestId::new(2)), []);
        assert_eq!(notices.take(|_| true).len(), 4);
        // Two rows, in the first and the last of the ranges.
        let rows = Some(Rows { bytes: 50, pitch: 200 });
        let dma = Dma { direction: Direction::Write, address: 50, bytes: 100, rows };
        notices.fell_through(RequestId::new(1), NodeId::new(0), 0, &dma);
        assert_eq!(notices.take(|_| true), []);
        (0..100).for_each(|_| stray(&mut notices, 1, 500..501));
        assert_eq!(notices.take(|_| true).len(), MOST_OF_PROGRAM);
        notices.forget(RequestId::new(1));
        stray(&mut notices, 1, 500..501);
        assert_eq!(notices.take(|_| true), []);
    }
}
