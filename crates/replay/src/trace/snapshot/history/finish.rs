//! End of a history: determines the blocks live at the start, and numbers everything.

use super::{History, Owner, Refused, Request, State, Step};
use crate::trace::recorder::Streams;
use crate::trace::snapshot::SnapshotError;
use crate::trace::snapshot::reserved;
use crate::trace::snapshot::segments::{Block, Remains};
use crate::trace::snapshot::settings::Settings;
use crate::trace::{
    Allocate, Event, HistoryExtent, Lag, OutOfMemory, Recording, SharedFree, Trace, TraceId,
};
use cubeyard_pickle::Budget;
use cubeyard_units::Bytes;

impl History {
    /// Returns the trace, without a name.
    pub(in crate::trace::snapshot) fn finish(
        mut self,
        remains: Option<Remains>,
        settings: &Settings,
        budget: &mut Budget,
    ) -> Result<Trace, SnapshotError> {
        let in_the_end = remains.as_ref().map(|remains| remains.reserved);
        let has_history = !self.addresses.is_empty();
        self.keep(remains.unwrap_or_default().blocks, budget)?;
        let mut recording = Recording {
            by: settings.by,
            reserved: reserved::peak(in_the_end, &self.changes),
            history: self.extent(has_history, in_the_end),
            expandable: settings.expandable,
            other_settings: settings.other.clone(),
            emptied_cache: self.emptying.found(),
            out_of_memory: Vec::new(),
        };
        budget.charge_table::<OutOfMemory>(2 * self.refused.len())?;
        let completions = self.completions;
        let trace = self.assemble(in_the_end, &mut recording.out_of_memory, budget)?;
        let several = trace.streams().len() > 1;
        let lag = if several && completions { Lag::Recorded } else { Lag::default() };
        Ok(Trace { recording: Some(recording), lag, ..trace })
    }

    /// Returns the extent of the history, once all blocks live at its start are known.
    fn extent(&self, has_history: bool, in_the_end: Option<u64>) -> HistoryExtent {
        let reserved = reserved::before(in_the_end, &self.changes).unwrap_or_default();
        match (has_history, self.at_start.is_empty() && reserved.is_zero()) {
            (false, _) => HistoryExtent::Missing,
            (true, true) => HistoryExtent::Whole,
            (true, false) => {
                let sizes = self.at_start.iter().map(|(_, request)| request.size.get());
                let live = Bytes::new(sizes.fold(0, u64::saturating_add));
                HistoryExtent::Begun { live, reserved }
            }
        }
    }

    /// Adds the blocks that were live from start to end and thus have no entry in the history.
    fn keep(&mut self, mut blocks: Vec<Block>, budget: &mut Budget) -> Result<(), SnapshotError> {
        blocks.sort_unstable_by_key(|block| (block.address, block.place));
        if let Some(pair) = blocks.windows(2).find(|pair| pair[0].address == pair[1].address) {
            let (part, address) = (pair[1].part(), pair[1].address);
            return Err(SnapshotError::AlreadyLive { part, address });
        }
        for Block { address, size, stream, site, pending, .. } in blocks {
            match self.addresses.get(&address) {
                None => {
                    self.add_at_start(address, Request { size, stream, site }, budget)?;
                }
                Some(&State::Freeing(_, place)) if pending => self.defer(place),
                // The history is taken at a slightly different moment than the segments, and may be more recent.
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn assemble(
        self,
        in_the_end: Option<u64>,
        failures: &mut Vec<OutOfMemory>,
        budget: &mut Budget,
    ) -> Result<Trace, SnapshotError> {
        let starting = self.at_start.len();
        let first = u32::try_from(starting).map_err(|_| SnapshotError::TooMany)?;
        let allocations = first.checked_add(self.allocations).ok_or(SnapshotError::TooMany)?;
        budget.charge_table::<(usize, TraceId)>(starting)?;
        budget.charge_table::<Event>(starting + self.steps.len())?;
        let mut by_address: Vec<usize> = (0..starting).collect();
        by_address.sort_unstable_by_key(|&place| (self.at_start[place].0, place));
        let mut ids = vec![TraceId(0); starting];
        by_address.iter().zip(0..).for_each(|(&place, id)| ids[place] = TraceId(id));

        let at_start = by_address.iter().map(|&place| self.at_start[place].1);
        let at_start = at_start.map(|request| Step::Allocate { request, time_us: 0 });
        let mut numbering = Numbering { first, ids, next: 0, streams: Streams::default() };
        let mut events = Vec::with_capacity(starting + self.steps.len());
        let mut shared = Vec::new();
        for step in at_start.chain(self.steps) {
            if let Step::OutOfMemory(number) = step {
                let Refused { request, device_free, changes } = self.refused[number];
                let Request { size, stream, site } = request;
                let stream =
                    numbering.streams.number(stream, budget)?.ok_or(SnapshotError::TooMany)?;
                let held = reserved::before(in_the_end, &self.changes[changes..]);
                let capacity = held.zip(device_free);
                let capacity = capacity.and_then(|(held, free)| held.checked_add(Bytes::new(free)));
                failures.push(OutOfMemory { event: events.len(), size, stream, site, capacity });
            }
            if let Step::FreeRequested { owner, time_us } = step {
                let free = SharedFree { id: numbering.id(owner), before: numbering.next, time_us };
                budget.push(&mut shared, free)?;
            }
            events.extend(numbering.event(step, budget)?);
        }
        Ok(Trace { events, allocations, shared, ..Trace::default() })
    }
}

/// Numbers of allocations and streams in the order of the trace.
struct Numbering {
    /// Number of the first allocation within the history.
    first: u32,
    /// Number of each allocation that was live at the start.
    ids: Vec<TraceId>,
    next: u32,
    streams: Streams,
}

impl Numbering {
    fn id(&self, owner: Owner) -> TraceId {
        match owner {
            Owner::AtStart(place) => self.ids[place],
            Owner::Since(number) => TraceId(self.first + number),
        }
    }

    /// Converts a step to an event; `None` for a step that is neither an allocation nor a free.
    fn event(&mut self, step: Step, budget: &mut Budget) -> Result<Option<Event>, SnapshotError> {
        let event = match step {
            Step::Allocate { request: Request { size, stream, site }, time_us } => {
                let (id, stream) = (TraceId(self.next), self.streams.number(stream, budget)?);
                let stream = stream.ok_or(SnapshotError::TooMany)?;
                self.next += 1;
                Event::Allocate(Allocate { id, size, stream, site, time_us })
            }
            Step::Free { owner, time_us } => Event::Free { id: self.id(owner), time_us },
            Step::FreeRequested { .. } | Step::OutOfMemory(_) => return Ok(None),
        };
        Ok(Some(event))
    }
}
