//! The compute engine.

use cubeyard_sim::Time;

use super::latest::Latest;
use super::{COMPUTE, LOAD, Run, STORE};
use crate::pe::{Cause, CommandId, OpRecord, OpUnit, Part, Strips, Work};
use crate::wiring::Wiring;

impl Run {
    /// Carries out the computations whose beginning is known: whether there were any.
    pub(super) fn compute(&mut self, wiring: &Wiring) -> bool {
        let mut moved = false;
        while let Some(&id) = self.queues[COMPUTE].front() {
            let index = self.slot(id).parts[COMPUTE].next;
            let Some((ready, strips)) = self.next_computation(id, index) else { break };
            self.slot_mut(id).parts[COMPUTE].next += 1;
            if self.slot(id).parts[COMPUTE].is_begun() {
                self.queues[COMPUTE].pop_front();
            }
            let end = self.stream(id, index, &strips, ready, wiring);
            let fetched = self.stages.free[0];
            if self.slot(id).is_pipeline {
                self.slot_mut(id).fetched.finish(index, fetched);
            }
            if self.has_data {
                let result = self.program.computed(id, index);
                self.check(result, wiring);
            }
            self.part_done(id, COMPUTE, index, end);
            moved = true;
        }
        moved
    }

    /// A computation and when it can begin; none if that is not known.
    fn next_computation(&self, id: CommandId, index: u32) -> Option<(Latest, Strips)> {
        let slot = self.slot(id);
        let command = slot.command.as_ref().expect("it is under way");
        let mut ready = self.ready(id, &command.after)?;
        match &command.work {
            Work::Compute(strips) => Some((ready, *strips)),
            Work::Pipeline(pipeline) => {
                for (kind, count) in [LOAD, STORE].into_iter().zip(pipeline.compute_after(index)) {
                    let unit = &self.dma[usize::from(kind == STORE)];
                    let time = slot.parts[kind].until(count)?;
                    ready = ready.or(time, Cause::Part, unit.last);
                }
                Some((ready, pipeline.compute(index)))
            }
            Work::Dma(_) => unreachable!("DMA is not computed"),
        }
    }

    fn stream(
        &mut self,
        id: CommandId,
        index: u32,
        strips: &Strips,
        ready: Latest,
        wiring: &Wiring,
    ) -> Latest {
        let free = self.stages.free;
        let stages = self.stages.stream(strips, ready.time);
        let units = [OpUnit::Fetch, strips.unit, OpUnit::Keep];
        for (unit, busy) in units.into_iter().zip(strips.busy()) {
            self.report.busy[unit as usize] += busy;
        }
        let end = Latest { time: stages[2].end, cause: Cause::Part, record: None };
        if !self.logs {
            return end;
        }
        let mut before = ready;
        for (stage, (unit, done)) in units.into_iter().zip(stages).enumerate() {
            let last = self.stage_records[stage];
            let began = if done.fed {
                before
            } else if done.start == free[stage] && done.start > before.time {
                Latest { time: done.start, cause: Cause::Unit, record: last }
            } else {
                Latest { time: done.start, ..before }
            };
            let each = [strips.fetch, strips.work, strips.store][stage];
            let from = if done.fed { Time::from_ps(done.end.ps() - each.ps()) } else { done.start };
            let record = self.record(
                |run| OpRecord {
                    request: run.request,
                    pe: run.node,
                    command: id,
                    part: Part::Compute(index),
                    unit,
                    start: done.start,
                    end: done.end,
                    from,
                    cause: began.cause,
                    before: began.record,
                },
                wiring,
            );
            self.stage_records[stage] = record;
            before = Latest { time: done.end, cause: Cause::Part, record };
        }
        before
    }
}
