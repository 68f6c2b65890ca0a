//! Commands in flight, with their dependencies and ends.

use cubeyard_sim::Time;

use super::latest::{Kept, Latest};
use super::progress::Progress;
use super::{COMPUTE, DISPATCH, LOAD, Run, STORE, VECTOR};
use crate::pe::packed::Packed;
use crate::pe::{Command, CommandId, Dependencies, OpCause, Pipeline, Work};

/// Number of kept part times of a pipeline above which old ones are discarded.
const KEPT: usize = 64;

/// Command in flight.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) packed: Packed,
    /// Progress of a pipeline; `None` for other commands, which have one part. Boxed, because pipelines are rare.
    pub(super) pipelined: Option<Box<Pipelined>>,
    /// Next command in the queue. A pipeline may be in several queues.
    pub(super) follower: CommandId,
}

const _: () = assert!(size_of::<Slot>() == 64, "a line of the cache: a core goes through many");

/// End of a command, if it is done. Before that: the time at which dispatch allowed it to begin, or the end of the
/// pipeline's latest part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommandEnd {
    time: Time,
    record: Kept,
    cause: OpCause,
    pub(super) is_done: bool,
}

const _: () = assert!(size_of::<CommandEnd>() == 16, "four to a line of the cache");

impl CommandEnd {
    pub(super) fn open(Latest { time, record, cause }: Latest) -> Self {
        Self { time, record, cause, is_done: false }
    }

    pub(super) fn latest(self) -> Latest {
        Latest { time: self.time, record: self.record, cause: self.cause }
    }

    pub(super) fn done_at(self) -> Option<Latest> {
        self.is_done.then(|| self.latest())
    }
}

/// Progress of the parts of a pipeline.
#[derive(Debug)]
pub(super) struct Pipelined {
    /// Time at which dispatch allowed the parts to begin.
    issued: Latest,
    /// Progress of loads, computations and stores.
    pub(super) parts: [Progress; 3],
    /// Progress of the fetches of operands from the TCM.
    pub(super) fetched: Progress,
    /// Commands that must be done before a computation or a store.
    before: Dependencies,
    /// Number of pending parts.
    left: u32,
    /// Whether the pipeline has parts for both compute engines.
    pub(super) is_mixed: bool,
    /// Index of the next part for each unit; the number of parts if there is none.
    next: [u32; 4],
    /// Next command in the queue of each unit.
    pub(super) followers: [CommandId; 4],
}

/// Returns the kind of a unit's parts; both engines have computations.
pub(super) fn kind_of(unit: usize) -> usize {
    if unit == VECTOR { COMPUTE } else { unit }
}

impl Pipelined {
    pub(super) fn new(
        parts: [u32; 3],
        next: [u32; 4],
        issued: Latest,
        before: Dependencies,
    ) -> Box<Self> {
        let fetched = Progress::new(parts[COMPUTE]);
        let is_mixed = next[COMPUTE].max(next[VECTOR]) < parts[COMPUTE];
        let (left, parts) = (parts.iter().sum(), parts.map(Progress::new));
        let followers = [0; 4];
        Box::new(Self { issued, parts, fetched, before, left, is_mixed, next, followers })
    }

    /// Returns the next part that a unit begins; `None` if all have begun.
    fn next(&self, unit: usize) -> Option<u32> {
        Some(self.next[unit]).filter(|next| *next < self.parts[kind_of(unit)].total)
    }
}

impl Slot {
    pub(super) fn open(&mut self, packed: Packed) {
        *self = Self { packed, pipelined: None, follower: 0 };
    }

    /// Returns the index of the next part that a unit begins.
    pub(super) fn next(&self, unit: usize) -> u32 {
        self.pipelined.as_ref().map_or(0, |pipelined| pipelined.next[unit])
    }

    /// Begins the next part of a unit, given the index of the following one. Returns whether it is the last.
    pub(super) fn begin(&mut self, unit: usize, after: u32) -> bool {
        let Some(pipelined) = &mut self.pipelined else { return true };
        pipelined.next[unit] = after;
        pipelined.next(unit).is_none()
    }
}

impl Run {
    pub(super) fn packed(&self, id: CommandId) -> Packed {
        self.slot(id).packed
    }

    /// Returns the work of a command that is not packed.
    pub(super) fn long(&self, id: CommandId) -> Option<&Work> {
        self.long_command(id).map(|command| &command.work)
    }

    pub(super) fn long_command(&self, id: CommandId) -> Option<&Command> {
        match self.packed(id) {
            Packed::Long(place) | Packed::Chosen(place, _) => Some(self.commands.long(id, place)),
            _ => None,
        }
    }

    pub(super) fn pipeline(&self, id: CommandId) -> &dyn Pipeline {
        match self.long(id) {
            Some(Work::Pipeline(pipeline)) => &**pipeline,
            _ => unreachable!("only pipelines have several parts"),
        }
    }

    /// Returns the earliest time at which a command can begin with respect to other commands, or the first command that
    /// it waits for. For a pipeline, this applies to its computations and stores.
    pub(super) fn ready(&self, id: CommandId) -> Result<Latest, CommandId> {
        match &self.slot(id).pipelined {
            Some(pipelined) => self.ready_after(id, &pipelined.before),
            None => self.ready_whole(id),
        }
    }

    /// Returns the earliest time at which any part of a command can begin with respect to other commands, or the first
    /// command that it waits for.
    pub(super) fn ready_whole(&self, id: CommandId) -> Result<Latest, CommandId> {
        match &self.slot(id).packed {
            Packed::Dma { after, .. }
            | Packed::Send(_, after)
            | Packed::Receive(_, after)
            | Packed::Compute(_, after) => self.ready_after(id, after),
            &Packed::Long(place) | &Packed::Chosen(place, _) => {
                self.ready_after(id, &self.commands.long(id, place).after)
            }
            Packed::Wait(_) | Packed::Fence | Packed::Dispatch(_) | Packed::End => {
                unreachable!("only commands are given places")
            }
        }
    }

    /// Returns the time at which a command is issued and its dependencies are done, or the first dependency that is
    /// pending.
    fn ready_after(&self, id: CommandId, after: &[CommandId]) -> Result<Latest, CommandId> {
        let mut ready = self.issued(id);
        for &before in after {
            // Commands before the window were done before this command was issued.
            if before + self.window > id {
                let end = self.end_of(before).done_at().ok_or(before)?;
                ready = ready.or(end.time, OpCause::After, end.record);
            }
        }
        Ok(ready)
    }

    fn issued(&self, id: CommandId) -> Latest {
        let pipelined = self.slot(id).pipelined.as_ref();
        pipelined.map_or_else(|| self.end_of(id).latest(), |pipelined| pipelined.issued)
    }

    /// Postpones the end of a command to `time`, unless it is already later.
    pub(super) fn put_off(&mut self, id: CommandId, time: Time, cause: OpCause, record: Kept) {
        let end = self.end_of_mut(id);
        *end = CommandEnd::open(end.latest().or(time, cause, record));
    }

    pub(super) fn part_done(&mut self, id: CommandId, kind: usize, index: u32, end: Latest) {
        self.put_off(id, end.time, end.cause, end.record);
        let slot = self.slot_mut(id);
        let Some(pipelined) = &mut slot.pipelined else { return self.command_done(id) };
        pipelined.parts[kind].finish(index, end.mark());
        pipelined.left -= 1;
        let (left, kept) = (pipelined.left, pipelined.parts[kind].kept());
        if left == 0 {
            return self.command_done(id);
        }
        [LOAD, COMPUTE, STORE, VECTOR].into_iter().for_each(|unit| self.due.add(unit));
        if kept > KEPT {
            self.forget(id);
        }
    }

    pub(super) fn command_done(&mut self, id: CommandId) {
        let end = self.end_of_mut(id);
        end.is_done = true;
        let end = end.latest();
        self.due.done(id);
        self.open -= 1;
        if self.open == 0 {
            self.due.add(DISPATCH);
        }
        self.last = self.last.or(end.time, end.cause, end.record);
    }

    /// Discards the times of parts that no other part waits for.
    fn forget(&mut self, id: CommandId) {
        let place = id as usize & (self.slots.len() - 1);
        let Packed::Long(long) = self.slots[place].packed else { return };
        let Work::Pipeline(pipeline) = &self.commands.long(id, long).work else { return };
        let Some(pipelined) = &mut self.slots[place].pipelined else { return };
        let all = u32::MAX;
        let next = [LOAD, COMPUTE, STORE, VECTOR].map(|unit| pipelined.next(unit));
        let computations = [next[COMPUTE], next[VECTOR]];
        let first = computations.into_iter().flatten().min();
        let compute = first.map_or([all; 2], |index| pipeline.compute_after(index));
        let by_load = next[LOAD].map_or(all, |index| pipeline.load_after(index));
        let by_store = next[STORE].map_or(all, |index| pipeline.store_after(index));
        let by_compute = computations.into_iter().flatten().filter(|_| pipelined.is_mixed);
        let by_compute = by_compute.map(|index| pipeline.compute_after_other(index)).min();
        let Pipelined { parts, fetched, .. } = &mut **pipelined;
        parts[LOAD].forget(compute[0]);
        parts[STORE].forget(compute[1]);
        parts[COMPUTE].forget(by_store.min(by_compute.unwrap_or(all)));
        fetched.forget(by_load);
    }
}
