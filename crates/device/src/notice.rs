//! What a machine notices of programs that run to their ends all the same: accesses that were not mapped and
//! fell through to memory that the program was not given, and messages that nobody received.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use cubeyard_sim::NodeId;

use crate::message::{Direction, RequestId, Rows};
use crate::pe::{CommandId, Dma};
use crate::request::PeRef;

/// The most that are kept of one program.
const MOST_OF_PROGRAM: usize = 8;

/// The most that are kept in all.
const MOST: usize = 4096;

/// Something that a command of a program did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The launch.
    pub launch: RequestId,
    /// The `PE_CPU` that runs the program.
    pub pe: NodeId,
    /// The command.
    pub command: CommandId,
    /// What it did.
    pub what: Noticed,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// An access to addresses that are not mapped was taken for one to physical addresses, and these are of
    /// no argument of the launch.
    Stray {
        /// Read or write.
        direction: Direction,
        /// The addresses, from the first to beyond the last.
        range: Range<u64>,
    },
    /// A message that it sent was not received, and has been dropped.
    Unreceived {
        /// The PE that it was sent to.
        to: PeRef,
        /// Its length.
        bytes: u64,
    },
}

/// What was noticed, and what launches were given.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The physical memory of the arguments of launches under way: ranges in order.
    given: BTreeMap<RequestId, Rc<[Range<u64>]>>,
    found: Vec<Notice>,
}

impl Notices {
    /// Notes the physical memory that a launch was given.
    pub(crate) fn give(&mut self, launch: RequestId, mut ranges: Vec<Range<u64>>) {
        ranges.sort_unstable_by_key(|range| range.start);
        self.given.insert(launch, ranges.into());
    }

    /// A program accesses physical memory by an address that is not mapped. Nothing is known of a launch
    /// whose arguments were not given.
    pub(crate) fn fell_through(
        &mut self,
        launch: RequestId,
        pe: NodeId,
        command: CommandId,
        dma: &Dma,
    ) {
        let Some(given) = self.given.get(&launch) else { return };
        let Dma { direction, address, bytes, rows } = *dma;
        let range = address..address.saturating_add(rows.map_or(bytes, |rows| rows.extent(bytes)));
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

    /// Takes what was noticed of some launches.
    pub(crate) fn take(&mut self, mut of: impl FnMut(RequestId) -> bool) -> Vec<Notice> {
        self.found.extract_if(.., |notice| of(notice.launch)).collect()
    }

    /// A launch is over.
    pub(crate) fn forget(&mut self, launch: RequestId) {
        self.given.remove(&launch);
    }
}

/// Whether a range lies in others, which are in order and may touch.
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
