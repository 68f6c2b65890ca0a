//! Commands under way: what they wait for, and when they are done.

use super::latest::Latest;
use super::progress::Progress;
use super::{COMPUTE, DISPATCH, LOAD, Run, STORE};
use crate::pe::{Cause, CommandId, Dependencies, Work};

/// How many times a pipeline's parts may be remembered before they are looked through.
const KEPT: usize = 64;

/// What has become of a command under way, or done.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Slot {
    /// When an engine could first begin it, as far as dispatch goes.
    pub(super) issued: Latest,
    pub(super) end: Latest,
    /// How far a pipeline is. Other commands have one part, so they need nothing to know that by; apart,
    /// because a core goes through many of those.
    pub(super) pipelined: Option<Box<Pipelined>>,
    /// The command after it in the queue that it stands in; a pipeline may stand in several.
    pub(super) follower: CommandId,
    /// The step that it is, where they are known.
    pub(super) step: u32,
    /// Which of several ports its message came from.
    pub(super) chosen: Option<u32>,
    pub(super) done: bool,
}

const _: () = assert!(size_of::<Slot>() == 64, "a line of the cache: a core goes through many");

/// How far the parts of a pipeline are, which wait for each other.
#[derive(Debug)]
pub(super) struct Pipelined {
    /// Loads, computations, stores.
    pub(super) parts: [Progress; 3],
    /// The computations that have taken their operands out of the TCM.
    pub(super) fetched: Progress,
    /// What its loads come after.
    pub(super) loads_after: Dependencies,
    /// Parts that are not done.
    left: u32,
    /// The commands after it in the queues for loads, computations and stores.
    pub(super) followers: [CommandId; 3],
}

impl Pipelined {
    /// One of so many parts, none of which has begun.
    pub(super) fn new(parts: [u32; 3], loads_after: Dependencies) -> Box<Self> {
        let fetched = Progress::new(parts[COMPUTE]);
        let (left, parts) = (parts.iter().sum(), parts.map(Progress::new));
        Box::new(Self { parts, fetched, loads_after, left, followers: [0; 3] })
    }
}

impl Slot {
    /// Takes in a command that is this step, in the place of one that is done.
    pub(super) fn begin(&mut self, step: u32, issued: Latest, pipelined: Option<Box<Pipelined>>) {
        let (end, follower, chosen, done) = (issued, 0, None, false);
        *self = Self { issued, end, pipelined, follower, step, chosen, done };
    }

    /// The next part of a kind to begin.
    pub(super) fn next(&self, kind: usize) -> u32 {
        self.pipelined.as_ref().map_or(0, |pipelined| pipelined.parts[kind].next)
    }

    /// Begins the next part of a kind: whether it is the last.
    pub(super) fn begin_next(&mut self, kind: usize) -> bool {
        let Some(pipelined) = &mut self.pipelined else { return true };
        pipelined.parts[kind].next += 1;
        pipelined.parts[kind].is_begun()
    }

    /// When it was done; none if it is not.
    pub(super) fn done_at(&self) -> Option<Latest> {
        self.done.then_some(self.end)
    }
}

impl Run {
    /// What a command is, and what it comes after.
    pub(super) fn command(&self, id: CommandId) -> (&Work, &[CommandId]) {
        self.commands.get(id, self.slot(id).step)
    }

    /// When all of these commands are done and the command itself is issued, or the first of them that is not.
    pub(super) fn ready(&self, id: CommandId, after: &[CommandId]) -> Result<Latest, CommandId> {
        let mut ready = self.slot(id).issued;
        for &before in after {
            // Those before the window were done before this command had its place.
            if before + self.window > id {
                let end = self.slot(before).done_at().ok_or(before)?;
                ready = ready.or(end.time, Cause::After, end.record);
            }
        }
        Ok(ready)
    }

    /// A part of a command is done.
    pub(super) fn part_done(&mut self, id: CommandId, kind: usize, index: u32, end: Latest) {
        let slot = self.slot_mut(id);
        slot.end = slot.end.or(end.time, end.cause, end.record);
        let Some(pipelined) = &mut slot.pipelined else { return self.command_done(id) };
        pipelined.parts[kind].finish(index, end.mark());
        pipelined.left -= 1;
        let (left, kept) = (pipelined.left, pipelined.parts[kind].kept());
        if left == 0 {
            return self.command_done(id);
        }
        [LOAD, COMPUTE, STORE].into_iter().for_each(|unit| self.due.add(unit));
        if kept > KEPT {
            self.forget(id);
        }
    }

    pub(super) fn command_done(&mut self, id: CommandId) {
        let slot = self.slot_mut(id);
        slot.done = true;
        let end = slot.end;
        self.due.done(id);
        self.open -= 1;
        if self.open == 0 {
            self.due.add(DISPATCH);
        }
        self.last = self.last.or(end.time, end.cause, end.record);
    }

    /// Forgets the times of parts that nothing waits for any more.
    fn forget(&mut self, id: CommandId) {
        let place = id as usize & (self.slots.len() - 1);
        let (work, _) = self.commands.get(id, self.slots[place].step);
        let Work::Pipeline(pipeline) = work else { return };
        let Some(pipelined) = &mut self.slots[place].pipelined else { return };
        let Pipelined { parts, fetched, .. } = &mut **pipelined;
        let next = |kind: usize| (!parts[kind].is_begun()).then_some(parts[kind].next);
        let all = u32::MAX;
        let compute = next(COMPUTE).map_or([all; 2], |index| pipeline.compute_after(index));
        let by_load = next(LOAD).map_or(all, |index| pipeline.load_after(index));
        let by_store = next(STORE).map_or(all, |index| pipeline.store_after(index));
        parts[LOAD].forget(compute[0]);
        parts[STORE].forget(compute[1]);
        parts[COMPUTE].forget(by_store);
        fetched.forget(by_load);
    }
}
