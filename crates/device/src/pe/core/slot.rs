//! Commands under way: what they wait for, and when they are done.

use super::latest::Latest;
use super::progress::Progress;
use super::{COMPUTE, DISPATCH, LOAD, Run, STORE};
use crate::pe::{Cause, Command, CommandId, Dependencies, Work};

/// How many times a pipeline's parts may be remembered before they are looked through.
const KEPT: usize = 64;

/// A command under way, or done. What it is takes a line of the cache, and what has become of it another: of
/// most commands others only ask for that.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    pub(super) work: Option<Work>,
    pub(super) after: Dependencies,
    /// When an engine could first begin it, as far as dispatch goes.
    pub(super) issued: Latest,
    pub(super) end: Latest,
    /// How far a pipeline is. Other commands have one part, so they need nothing to know that by; apart,
    /// because a core goes through many of those.
    pub(super) pipelined: Option<Box<Pipelined>>,
    /// Parts that are not done.
    pub(super) left: u32,
    pub(super) done: bool,
}

const _: () = assert!(size_of::<Slot>() <= 128, "a core goes through many of them");

/// How far the parts of a pipeline are, which wait for each other.
#[derive(Debug)]
pub(super) struct Pipelined {
    /// Loads, computations, stores.
    pub(super) parts: [Progress; 3],
    /// The computations that have taken their operands out of the TCM.
    pub(super) fetched: Progress,
    /// What its loads come after.
    pub(super) loads_after: Dependencies,
}

impl Slot {
    /// Takes in a command, in the place of one that is done.
    pub(super) fn begin(&mut self, command: Command, issued: Latest, parts: [u32; 3]) {
        let Command { work, after, loads_after } = command;
        self.pipelined = matches!(work, Work::Pipeline(_)).then(|| {
            let fetched = Progress::new(parts[COMPUTE]);
            Box::new(Pipelined { parts: parts.map(Progress::new), fetched, loads_after })
        });
        let is_message = work.is_message();
        self.work = Some(work);
        self.after = after;
        self.issued = issued;
        self.left = parts.iter().sum::<u32>() + u32::from(is_message);
        self.end = issued;
        self.done = false;
    }

    /// What it is.
    pub(super) fn work(&self) -> &Work {
        self.work.as_ref().expect("it is under way")
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
        let pipelined = slot.pipelined.as_mut().map(|pipelined| &mut pipelined.parts[kind]);
        let kept = pipelined.map_or(0, |progress| {
            progress.finish(index, end.mark());
            progress.kept()
        });
        slot.left -= 1;
        slot.end = slot.end.or(end.time, end.cause, end.record);
        if slot.left == 0 {
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
        let slot = self.slot_mut(id);
        let Some(Work::Pipeline(pipeline)) = &slot.work else { return };
        let Some(Pipelined { parts, fetched, .. }) = slot.pipelined.as_deref_mut() else { return };
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
