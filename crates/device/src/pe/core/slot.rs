//! Commands under way: what they wait for, and when they are done.

use super::latest::Latest;
use super::progress::Progress;
use super::{COMPUTE, LOAD, Run, STORE};
use crate::pe::{Cause, Command, CommandId, Work};

/// How many times a pipeline's parts may be remembered before they are looked through.
const KEPT: usize = 64;

/// A command under way, or done.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) command: Option<Command>,
    /// When an engine could first begin it, as far as dispatch goes.
    pub(super) issued: Latest,
    pub(super) parts: [Progress; 3],
    /// The computations that have taken their operands out of the TCM.
    pub(super) fetched: Progress,
    /// Parts that are not done.
    pub(super) left: u32,
    pub(super) end: Latest,
    pub(super) done: bool,
}

impl Run {
    /// When all of these commands are done and the command itself is issued; none if that is not known.
    pub(super) fn ready(&self, id: CommandId, after: &[CommandId]) -> Option<Latest> {
        let mut ready = self.slot(id).issued;
        for &before in after {
            // Those before the window were done before this command had its place.
            if u64::from(before) + self.window() > u64::from(id) {
                let end = self.ends[before as usize % self.ends.len()]?;
                ready = ready.or(end.time, Cause::After, end.record);
            }
        }
        Some(ready)
    }

    /// A part of a command is done.
    pub(super) fn part_done(&mut self, id: CommandId, kind: usize, index: u32, end: Latest) {
        let slot = self.slot_mut(id);
        slot.parts[kind].finish(index, end.mark());
        slot.left -= 1;
        slot.end = slot.end.or(end.time, end.cause, end.record);
        if slot.left == 0 {
            self.command_done(id);
        } else if self.slot(id).parts[kind].kept() > KEPT {
            self.forget(id);
        }
    }

    pub(super) fn command_done(&mut self, id: CommandId) {
        let slot = self.slot_mut(id);
        slot.done = true;
        let end = slot.end;
        let place = id as usize % self.ends.len();
        self.ends[place] = Some(end);
        self.open -= 1;
        self.last = self.last.or(end.time, end.cause, end.record);
    }

    /// Forgets the times of parts that nothing waits for any more.
    fn forget(&mut self, id: CommandId) {
        let slot = self.slot_mut(id);
        let Some(Command { work: Work::Pipeline(pipeline), .. }) = &slot.command else { return };
        let next = |kind: usize| (!slot.parts[kind].is_begun()).then_some(slot.parts[kind].next);
        let all = u32::MAX;
        let compute = next(COMPUTE).map_or([all; 2], |index| pipeline.compute_after(index));
        let by_load = next(LOAD).map_or(all, |index| pipeline.load_after(index));
        let by_store = next(STORE).map_or(all, |index| pipeline.store_after(index));
        slot.parts[LOAD].forget(compute[0]);
        slot.parts[STORE].forget(compute[1]);
        slot.parts[COMPUTE].forget(by_store);
        slot.fetched.forget(by_load);
    }
}
