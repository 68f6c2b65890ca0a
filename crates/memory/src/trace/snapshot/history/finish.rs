//! The end of a history: what was live at its start is known, and everything gets its number.

use super::{History, Owner, Request, State, Step};
use crate::trace::recorder::Streams;
use crate::trace::snapshot::SnapshotError;
use crate::trace::snapshot::reserved;
use crate::trace::snapshot::segments::{Block, Remains};
use crate::trace::{Allocate, Event, Trace, TraceId};

impl History {
    /// The trace, still without a name.
    pub(in crate::trace::snapshot) fn finish(
        mut self,
        remains: Option<Remains>,
    ) -> Result<Trace, SnapshotError> {
        let in_the_end = remains.as_ref().map(|remains| remains.reserved);
        let recorded_reserved = reserved::peak(in_the_end, &self.changes);
        self.keep(remains.unwrap_or_default().blocks)?;
        let trace = self.assemble().ok_or(SnapshotError::TooMany)?;
        Ok(Trace { recorded_reserved, ..trace })
    }

    /// Adds the blocks that were live from start to end, so that no entry mentions them.
    fn keep(&mut self, mut blocks: Vec<Block>) -> Result<(), SnapshotError> {
        blocks.sort_by_key(|block| block.address);
        if let Some(pair) = blocks.windows(2).find(|pair| pair[0].address == pair[1].address) {
            let (part, address) = (pair[1].part(), pair[1].address);
            return Err(SnapshotError::AlreadyLive { part, address });
        }
        for Block { address, size, stream, site, pending, .. } in blocks {
            match self.addresses.get(&address) {
                None => {
                    self.add_at_start(address, Request { size, stream, site });
                }
                Some(&State::Freeing(_, place)) if pending => self.withdraw(place),
                // The history is taken a moment apart from the segments, and may know better.
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The trace of all steps, or `None` where their numbers do not fit 32 bits.
    fn assemble(self) -> Option<Trace> {
        let first = u32::try_from(self.at_start.len()).ok()?;
        let allocations = first.checked_add(self.allocations)?;
        let mut by_address: Vec<usize> = (0..self.at_start.len()).collect();
        by_address.sort_by_key(|&place| self.at_start[place].0);
        let mut ids = vec![TraceId(0); self.at_start.len()];
        by_address.iter().zip(0..).for_each(|(&place, id)| ids[place] = TraceId(id));

        let at_start = by_address.iter().map(|&place| self.at_start[place].1);
        let at_start = at_start.map(|request| Step::Allocate { request, time_us: 0 });
        let mut numbering = Numbering { first, ids, next: 0, streams: Streams::default() };
        let mut events = Vec::with_capacity(self.at_start.len() + self.steps.len());
        for step in at_start.chain(self.steps) {
            events.extend(numbering.event(step)?);
        }
        Some(Trace { events, allocations, ..Trace::default() })
    }
}

/// Gives allocations and streams their numbers in the order of the trace.
struct Numbering {
    /// The number of the first allocation of the history itself.
    first: u32,
    /// The number of each allocation that was live at the start.
    ids: Vec<TraceId>,
    next: u32,
    streams: Streams,
}

impl Numbering {
    /// What a step comes to, if anything; the outer `None` is for too many streams.
    #[expect(clippy::option_option, reason = "one is a failure, the other a step that is dropped")]
    fn event(&mut self, step: Step) -> Option<Option<Event>> {
        let event = match step {
            Step::Allocate { request: Request { size, stream, site }, time_us } => {
                let (id, stream) = (TraceId(self.next), self.streams.number(stream)?);
                self.next += 1;
                Event::Allocate(Allocate { id, size, stream, site, time_us })
            }
            Step::Free { owner: Owner::AtStart(place), time_us } => {
                Event::Free { id: self.ids[place], time_us }
            }
            Step::Free { owner: Owner::Since(number), time_us } => {
                Event::Free { id: TraceId(self.first + number), time_us }
            }
            Step::Withdrawn => return Some(None),
        };
        Some(Some(event))
    }
}
