//! The compute engine, or the separate engines of GEMM and MATH.

use cubeyard_sim::{Span, Time};

use super::latest::Latest;
use super::progress::RecordedTime;
use super::{COMPUTE, LOAD, Run, STORE, VECTOR};
use crate::pe::packed::Packed;
use crate::pe::strips::ComputeStages;
use crate::pe::{CommandId, CommandPart, OpCause, OpRecord, OpUnit, Strips, Work};

/// Paths of each engine from and to the TCM.
const PATHS: [[OpUnit; 2]; 2] =
    [[OpUnit::Fetch, OpUnit::Keep], [OpUnit::MathFetch, OpUnit::MathKeep]];

/// Compute engine: its stages, and the last record of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComputeEngine {
    stages: ComputeStages,
    records: [Option<u32>; 3],
}

impl ComputeEngine {
    pub(super) fn new(free: Time) -> Self {
        Self { stages: ComputeStages { free: [free; 3] }, records: [None; 3] }
    }
}

impl Run {
    /// Carries out the computations of an engine whose start times are known.
    pub(super) fn compute(&mut self, engine: usize) {
        while let Some(id) = self.front(engine) {
            let index = self.slot(id).next(engine);
            let (ready, strips) = match self.next_computation(id, index) {
                Ok(next) => next,
                Err(before) => return self.due.wait(engine, before),
            };
            let after = self.computation_after(id, engine, index);
            if self.slot_mut(id).begin(engine, after) {
                self.leave(engine);
            }
            let (end, fetched) = self.stream(engine, id, index, &strips, ready);
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

    /// Returns the engine of a unit.
    pub(super) fn engine(&self, unit: OpUnit) -> usize {
        if self.is_separate && unit == OpUnit::Math { VECTOR } else { COMPUTE }
    }

    /// Returns the engine of a computation in the list.
    pub(super) fn engine_at(&self, place: u32) -> usize {
        if self.is_separate { self.engine(self.commands.strips(place).unit) } else { COMPUTE }
    }

    /// Returns the first part of a pipeline for each unit; the number of parts if the unit has none.
    pub(super) fn first_parts(&self, id: CommandId, computations: u32) -> [u32; 4] {
        if !self.is_separate {
            return [0, 0, 0, computations];
        }
        let first = |engine| self.computation_from(id, engine, 0, computations);
        [0, first(COMPUTE), 0, first(VECTOR)]
    }

    /// Returns the index of the engine's next computation after `index`.
    fn computation_after(&self, id: CommandId, engine: usize, index: u32) -> u32 {
        match &self.slot(id).pipelined {
            Some(pipelined) if pipelined.is_mixed => {
                let total = pipelined.parts[COMPUTE].total;
                self.computation_from(id, engine, index + 1, total)
            }
            _ => index + 1,
        }
    }

    fn computation_from(&self, id: CommandId, engine: usize, first: u32, total: u32) -> u32 {
        let pipeline = self.pipeline(id);
        let is_its = |&index: &u32| self.engine(pipeline.compute(index).unit) == engine;
        (first..total).find(is_its).unwrap_or(total)
    }

    /// Returns a computation and the earliest time at which it can begin, or the command that it waits for, which may
    /// be its own.
    fn next_computation(&self, id: CommandId, index: u32) -> Result<(Latest, Strips), CommandId> {
        let mut ready = self.ready(id)?;
        let Some(pipelined) = &self.slot(id).pipelined else {
            return Ok((ready, self.computation(id)));
        };
        let pipeline = self.pipeline(id);
        let [loads, stores] = pipeline.compute_after(index);
        let others = if pipelined.is_mixed { pipeline.compute_after_other(index) } else { 0 };
        for (kind, count) in [(LOAD, loads), (STORE, stores), (COMPUTE, others)] {
            let RecordedTime { time, record } = pipelined.parts[kind].until(count).ok_or(id)?;
            ready = ready.or(time, OpCause::Part, record);
        }
        Ok((ready, pipeline.compute(index)))
    }

    /// Returns the computation of a command that is not a pipeline.
    fn computation(&self, id: CommandId) -> Strips {
        match (self.packed(id), self.long(id)) {
            (Packed::Compute(place, _), _) => self.commands.strips(place),
            (_, Some(Work::Compute(strips))) => *strips,
            _ => unreachable!("only computations are queued"),
        }
    }

    /// Streams a computation through the stages of an engine. Returns the times at which it is done and at which its
    /// operands are fetched.
    fn stream(
        &mut self,
        engine: usize,
        id: CommandId,
        index: u32,
        strips: &Strips,
        ready: Latest,
    ) -> (Latest, RecordedTime) {
        let place = usize::from(engine == VECTOR);
        let [fetch, keep] = PATHS[place];
        let (units, free) = ([fetch, strips.unit, keep], self.engines[place].stages.free);
        let stages = self.engines[place].stages.stream(strips, ready.time);
        for (unit, busy) in units.into_iter().zip(strips.busy()) {
            self.report.busy[unit as usize] += busy;
        }
        if !self.logs {
            let end = Latest::new(stages[2].end, OpCause::Part, None);
            return (end, RecordedTime { time: stages[0].end, record: None });
        }
        let mut records = self.engines[place].records;
        let each = [strips.fetch, strips.work, strips.store];
        // Arrival times of the first and the last strip, each with its cause.
        let (mut first, mut last) = (ready, ready);
        for (stage, (unit, done)) in units.into_iter().zip(stages).enumerate() {
            let busy = Latest::new(free[stage], OpCause::Unit, records[stage]);
            let began = first.or(busy.time, busy.cause, busy.record);
            // A stage without work has no record: its cause of delay is passed on to the next stage.
            if each[stage] == Span::ZERO {
                (first, last) = (began, last.or(began.time, began.cause, began.record));
                records[stage] = last.record.into();
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
            records[stage] = record;
            first = Latest::new(done.start + each[stage], OpCause::Part, record);
            last = Latest::new(done.end, OpCause::Part, record);
        }
        self.engines[place].records = records;
        (last, RecordedTime { time: stages[0].end, record: records[0] })
    }
}
