//! The compute engine.

use cubeyard_sim::Span;

use super::latest::Latest;
use super::progress::Mark;
use super::{COMPUTE, LOAD, Run, STORE};
use crate::pe::packed::Packed;
use crate::pe::{CommandId, CommandPart, OpCause, OpRecord, OpUnit, Strips, Work};

impl Run {
    /// Carries out the computations whose beginning is known.
    pub(super) fn compute(&mut self) {
        while let Some(id) = self.front(COMPUTE) {
            let index = self.slot(id).next(COMPUTE);
            let (ready, strips) = match self.next_computation(id, index) {
                Ok(next) => next,
                Err(before) => return self.due.wait(COMPUTE, before),
            };
            if self.slot_mut(id).begin_next(COMPUTE) {
                self.leave(COMPUTE);
            }
            let end = self.stream(id, index, &strips, ready);
            let fetched = Mark { time: self.stages.free[0], record: self.stage_records[0] };
            if let Some(pipelined) = &mut self.slot_mut(id).pipelined {
                pipelined.fetched.finish(index, fetched);
            }
            if self.has_data {
                let result = self.program.computed(id, index);
                self.check(result);
            }
            self.part_done(id, COMPUTE, index, end);
        }
    }

    /// A computation and when it can begin, or the command that it waits for: another, or more of its own.
    fn next_computation(&self, id: CommandId, index: u32) -> Result<(Latest, Strips), CommandId> {
        let mut ready = self.ready(id)?;
        let Some(pipelined) = &self.slot(id).pipelined else {
            return Ok((ready, self.computation(id)));
        };
        let pipeline = self.pipeline(id);
        for (kind, count) in [LOAD, STORE].into_iter().zip(pipeline.compute_after(index)) {
            let Mark { time, record } = pipelined.parts[kind].until(count).ok_or(id)?;
            ready = ready.or(time, OpCause::Part, record);
        }
        Ok((ready, pipeline.compute(index)))
    }

    /// The computation that a command is, and no pipeline.
    fn computation(&self, id: CommandId) -> Strips {
        match (self.packed(id), self.long(id)) {
            (Packed::Compute(place, _), _) => self.commands.strips(place),
            (_, Some(Work::Compute(strips))) => *strips,
            _ => unreachable!("only computations are queued"),
        }
    }

    fn stream(&mut self, id: CommandId, index: u32, strips: &Strips, ready: Latest) -> Latest {
        let free = self.stages.free;
        let stages = self.stages.stream(strips, ready.time);
        let units = [OpUnit::Fetch, strips.unit, OpUnit::Keep];
        for (unit, busy) in units.into_iter().zip(strips.busy()) {
            self.report.busy[unit as usize] += busy;
        }
        let end = Latest::new(stages[2].end, OpCause::Part, None);
        if !self.logs {
            return end;
        }
        let each = [strips.fetch, strips.work, strips.store];
        // When the first strip came, and when the last; what each of these was up to.
        let (mut first, mut last) = (ready, ready);
        for (stage, (unit, done)) in units.into_iter().zip(stages).enumerate() {
            let busy = Latest::new(free[stage], OpCause::Unit, self.stage_records[stage]);
            let began = first.or(busy.time, busy.cause, busy.record);
            // A stage that has nothing to do has no record: what it waits for is what others wait for.
            if each[stage] == Span::ZERO {
                (first, last) = (began, last.or(began.time, began.cause, began.record));
                self.stage_records[stage] = last.record.into();
                continue;
            }
            let (from, ended) = if done.fed { (last.time, last) } else { (done.start, began) };
            let record = self.log(OpRecord {
                request: self.request,
                pe: self.node,
                command: id,
                part: CommandPart::Compute(index),
                unit,
                start: done.start,
                end: done.end,
                busy: strips.busy()[stage],
                began: began.reason(),
                from,
                ended: ended.reason(),
            });
            self.stage_records[stage] = record;
            first = Latest::new(done.start + each[stage], OpCause::Part, record);
            last = Latest::new(done.end, OpCause::Part, record);
        }
        last
    }
}
