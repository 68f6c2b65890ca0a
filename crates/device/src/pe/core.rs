//! The core of a PE: dispatches the commands of a program and sees them through its engines.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use cubeyard_sim::{Context, NodeId, Span, Time};

use super::log::{Cause, OpRecord, OpUnit, Reason};
use super::progress::{Mark, Progress};
use super::strips::Stages;
use super::{Command, CommandId, CoreReport, Dma, Next, Part, Program, Strips, Work};
use crate::message::{
    Buffer, Direction, Done, Failure, Message, RequestId, Slice, Unwritten, VirtualAccess,
};
use crate::topology::CoreSpec;
use crate::wiring::Wiring;

/// How many times a pipeline's parts may be remembered before they are looked through.
const KEPT: usize = 64;

/// What runs programs in a PE, one at a time.
#[derive(Debug)]
pub struct Core {
    /// The PE's DMA engines and its MMU.
    dma: NodeId,
    wiring: Rc<Wiring>,
    run: Option<Box<Run>>,
}

/// A program under way.
#[derive(Debug)]
struct Run {
    request: RequestId,
    node: NodeId,
    program: Box<dyn Program>,
    has_data: bool,
    logs: bool,
    state: State,
    report: CoreReport,
    /// When `PE_CPU` can dispatch again, and why not earlier.
    cpu: Latest,
    next: CommandId,
    /// The commands under way, each at its number modulo the window.
    slots: Vec<Slot>,
    /// When commands were done, each at its number modulo twice the window: one under way may come after
    /// another that has left the window since.
    ends: Vec<Option<Latest>>,
    /// How many commands are not done.
    open: usize,
    /// The commands that each engine has parts of to begin: loads, computations, stores.
    queues: [VecDeque<CommandId>; 3],
    stages: Stages,
    stage_records: [Option<u32>; 3],
    dma: [DmaUnit; 2],
    /// The end of the last command that is done.
    last: Latest,
    /// The alarms that are set: for DMA, and for the end.
    alarms: [Option<Time>; 3],
}

/// What `PE_CPU` is at.
#[derive(Debug)]
enum State {
    Going,
    /// For a command to be done.
    Waiting(CommandId),
    /// For a place in the window.
    Holding(Box<Command>),
    Ended,
    Failed,
}

/// A command under way, or done.
#[derive(Debug, Default)]
struct Slot {
    command: Option<Command>,
    /// When an engine could first begin it, as far as dispatch goes.
    issued: Latest,
    parts: [Progress; 3],
    /// The computations that have taken their operands out of the TCM.
    fetched: Progress,
    /// Parts that are not done.
    left: u32,
    end: Latest,
    done: bool,
}

/// The read or the write engines of the DMA.
#[derive(Debug, Default)]
struct DmaUnit {
    under_way: Vec<Flight>,
    /// The last that was done.
    last: Mark,
    /// What the last that was begun had waited for, and when it began.
    begun: Mark,
}

#[derive(Debug)]
struct Flight {
    command: CommandId,
    index: u32,
    bytes: u64,
    from: Latest,
    start: Time,
    buffer: Option<Buffer>,
    unwritten: Unwritten,
}

/// The latest of several times, and what it belongs to.
#[derive(Clone, Copy, Debug)]
struct Latest {
    time: Time,
    cause: Cause,
    record: Option<u32>,
}

impl Default for Latest {
    fn default() -> Self {
        Self { time: Time::ZERO, cause: Cause::Start, record: None }
    }
}

impl Latest {
    /// The later of the two; this one, if they are equal.
    fn or(self, time: Time, cause: Cause, record: Option<u32>) -> Self {
        if time > self.time { Self { time, cause, record } } else { self }
    }

    fn reason(self) -> Reason {
        Reason { cause: self.cause, before: self.record }
    }

    fn mark(self) -> Mark {
        Mark { time: self.time, record: self.record }
    }
}

const LOAD: usize = 0;
const COMPUTE: usize = 1;
const STORE: usize = 2;

impl Core {
    /// A core whose DMA engine is at a node.
    pub fn new(dma: NodeId, wiring: Rc<Wiring>) -> Self {
        Self { dma, wiring, run: None }
    }

    /// Whether a program is under way.
    pub fn is_busy(&self) -> bool {
        self.run.is_some()
    }

    /// Starts a program, now.
    ///
    /// # Panics
    /// If one is under way.
    pub fn start(
        &mut self,
        request: RequestId,
        program: Box<dyn Program>,
        context: &mut Context<Message>,
    ) {
        assert!(self.run.is_none(), "one program at a time");
        let logs = self.wiring.ops().is_kept();
        let window = self.wiring.topology().spec().pe.core.window;
        let run = Run::new(request, program, context, window as usize, logs);
        self.run = Some(Box::new(run));
        self.advance(context);
    }

    /// An alarm has come: the program that has ended now, if it has.
    pub fn wake(&mut self, context: &mut Context<Message>) -> Option<RequestId> {
        if let Some(run) = &mut self.run {
            run.alarms.iter_mut().filter(|alarm| **alarm == Some(context.now())).for_each(
                |alarm| {
                    *alarm = None;
                },
            );
        }
        self.advance(context);
        self.ended(context)
    }

    /// An access of the program is done.
    pub fn dma_done(
        &mut self,
        token: u64,
        well: bool,
        context: &mut Context<Message>,
    ) -> Option<RequestId> {
        let run = self.run.as_mut().expect("a program waits for its accesses");
        run.dma_done(token, well, context.now(), &self.wiring);
        self.advance(context);
        self.ended(context)
    }

    /// Stops the program of a launch where it is: what it waited for, if it is the one under way.
    pub fn stop(&mut self, launch: RequestId) -> Option<String> {
        let waits = self.waits_for();
        let run = self.run.as_mut().filter(|run| run.request == launch)?;
        run.fail("it was stopped".to_owned(), &self.wiring);
        waits
    }

    /// What the program waits for.
    pub fn waits_for(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        let open = run.slots.iter().find(|slot| slot.command.is_some() && !slot.done);
        let what = match (&run.state, open) {
            (State::Waiting(id), _) => run.program.describe(*id),
            (_, Some(_)) => run.program.describe(run.first_open()),
            _ => "its next command".to_owned(),
        };
        Some(what)
    }

    /// Does all that can be done now.
    fn advance(&mut self, context: &mut Context<Message>) {
        let Some(run) = &mut self.run else { return };
        let spec = &self.wiring.topology().spec().pe.core;
        loop {
            let dispatched = run.dispatch(spec, &self.wiring);
            let loaded = run.dma(LOAD, spec.dma_read_engines, self.dma, context, &self.wiring);
            let computed = run.compute(&self.wiring);
            let stored = run.dma(STORE, spec.dma_write_engines, self.dma, context, &self.wiring);
            if !(dispatched || loaded || computed || stored) {
                break;
            }
        }
        run.set_alarm_for_the_end(context);
    }

    /// The program, if it has ended.
    fn ended(&mut self, context: &Context<Message>) -> Option<RequestId> {
        let run = self.run.as_ref()?;
        if !run.is_over() || run.end() > context.now() {
            return None;
        }
        let run = self.run.take().expect("it is there");
        let report = CoreReport { ended: context.now(), ..run.report };
        self.wiring.ran(run.request, run.node, report);
        Some(run.request)
    }
}

impl Run {
    fn new(
        request: RequestId,
        program: Box<dyn Program>,
        context: &Context<Message>,
        window: usize,
        logs: bool,
    ) -> Self {
        let now = context.now();
        let start = Latest { time: now, ..Latest::default() };
        Self {
            request,
            node: context.node(),
            has_data: program.has_data(),
            program,
            logs,
            state: State::Going,
            report: CoreReport { started: now, ..CoreReport::default() },
            cpu: start,
            next: 0,
            slots: (0..window).map(|_| Slot::default()).collect(),
            ends: vec![None; 2 * window],
            open: 0,
            queues: <[VecDeque<CommandId>; 3]>::default(),
            stages: Stages { free: [now; 3] },
            stage_records: [None; 3],
            dma: <[DmaUnit; 2]>::default(),
            last: start,
            alarms: [None; 3],
        }
    }

    fn slot(&self, id: CommandId) -> &Slot {
        &self.slots[id as usize % self.slots.len()]
    }

    fn slot_mut(&mut self, id: CommandId) -> &mut Slot {
        let place = id as usize % self.slots.len();
        &mut self.slots[place]
    }

    /// The first command that is not done.
    fn first_open(&self) -> CommandId {
        let oldest = self.next.saturating_sub(u32::try_from(self.slots.len()).expect("a window"));
        (oldest..self.next).find(|&id| !self.slot(id).done).unwrap_or(oldest)
    }

    fn is_over(&self) -> bool {
        match self.state {
            State::Ended => self.open == 0,
            State::Failed => self.dma.iter().all(|unit| unit.under_way.is_empty()),
            _ => false,
        }
    }

    fn end(&self) -> Time {
        self.last.time.max(self.cpu.time)
    }

    fn set_alarm_for_the_end(&mut self, context: &mut Context<Message>) {
        if self.is_over() && self.alarms[2].is_none() {
            let end = self.end().max(context.now());
            self.alarms[2] = Some(end);
            context.wake_after(end - context.now(), super::ALARM);
        }
    }

    fn fail(&mut self, what: String, wiring: &Wiring) {
        wiring.fail(self.request, Failure { origin: self.node, what });
        self.state = State::Failed;
        self.queues.iter_mut().for_each(VecDeque::clear);
    }

    /// Notes a result of the program, which may be that it went wrong.
    fn check(&mut self, result: Result<(), String>, wiring: &Wiring) {
        if let Err(what) = result {
            self.fail(what, wiring);
        }
    }

    fn record(&mut self, record: impl FnOnce(&Self) -> OpRecord, wiring: &Wiring) -> Option<u32> {
        self.logs.then(|| wiring.ops_mut().push(record(self))).flatten()
    }
}

/// Dispatch.
impl Run {
    /// Lets `PE_CPU` go on as far as it can: whether it did anything.
    fn dispatch(&mut self, spec: &CoreSpec, wiring: &Wiring) -> bool {
        let mut moved = false;
        loop {
            match std::mem::replace(&mut self.state, State::Going) {
                State::Going => match self.program.next() {
                    Next::Command(command) => {
                        self.spend(spec.dispatch, wiring);
                        self.state = State::Holding(Box::new(command));
                    }
                    Next::Wait(id) => {
                        self.spend(spec.dispatch, wiring);
                        self.state = State::Waiting(id);
                    }
                    Next::Dispatch(count) => self.spend(spec.dispatch * u64::from(count), wiring),
                    Next::End => self.state = State::Ended,
                    Next::Failed(what) => self.fail(what, wiring),
                },
                State::Waiting(id) => match self.done(id) {
                    Some(end) => self.cpu = self.cpu.or(end.time, Cause::Window, end.record),
                    None => {
                        self.state = State::Waiting(id);
                        return moved;
                    }
                },
                State::Holding(command) => match self.room() {
                    Some(end) => {
                        self.cpu = self.cpu.or(end.time, Cause::Window, end.record);
                        self.issue(*command, spec.scheduler_overhead);
                    }
                    None => {
                        self.state = State::Holding(command);
                        return moved;
                    }
                },
                over => {
                    self.state = over;
                    return moved;
                }
            }
            moved = true;
        }
    }

    /// Lets `PE_CPU` be busy.
    fn spend(&mut self, span: Span, wiring: &Wiring) {
        let (before, start) = (self.cpu, self.cpu.time);
        self.cpu.time += span;
        self.report.busy[OpUnit::Cpu as usize] += span;
        let record = self.record(
            |run| OpRecord {
                request: run.request,
                pe: run.node,
                command: run.next,
                part: Part::Compute(0),
                unit: OpUnit::Cpu,
                start,
                end: start + span,
                began: before.reason(),
                from: start,
                ended: before.reason(),
            },
            wiring,
        );
        self.cpu = Latest { time: self.cpu.time, cause: Cause::Dispatch, record };
    }

    /// When a command was done; none if it is not. Those before the window were done before any dispatch
    /// that is still to come.
    fn done(&self, id: CommandId) -> Option<Latest> {
        if u64::from(id) + self.window() <= u64::from(self.next) || id >= self.next {
            return Some(Latest::default());
        }
        self.ends[id as usize % self.ends.len()]
    }

    fn window(&self) -> u64 {
        self.slots.len() as u64
    }

    /// When the next command has a place in the window; none if that is not known.
    fn room(&self) -> Option<Latest> {
        let slot = self.slot(self.next);
        (slot.command.is_none() || slot.done).then_some(slot.end)
    }

    fn issue(&mut self, command: Command, overhead: Span) {
        let parts = match &command.work {
            Work::Dma(dma) if dma.direction == Direction::Read => [1, 0, 0],
            Work::Dma(_) => [0, 0, 1],
            Work::Compute(_) => [0, 1, 0],
            Work::Pipeline(pipeline) => pipeline.parts(),
        };
        let id = self.next;
        let issued = Latest { time: self.cpu.time + overhead, ..self.cpu };
        *self.slot_mut(id) = Slot {
            command: Some(command),
            issued,
            parts: parts.map(Progress::new),
            fetched: Progress::new(parts[COMPUTE]),
            left: parts.iter().sum(),
            end: issued,
            done: false,
        };
        let place = id as usize % self.ends.len();
        self.ends[place] = None;
        self.next += 1;
        self.open += 1;
        self.report.commands += 1;
        for (queue, count) in self.queues.iter_mut().zip(parts) {
            if count > 0 {
                queue.push_back(id);
            }
        }
        if parts == [0; 3] {
            self.command_done(id);
        }
    }

    /// When all of these commands are done and the command itself is issued; none if that is not known.
    fn ready(&self, id: CommandId, after: &[CommandId]) -> Option<Latest> {
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
    fn part_done(&mut self, id: CommandId, kind: usize, index: u32, end: Latest) {
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

    fn command_done(&mut self, id: CommandId) {
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

/// The compute engine.
impl Run {
    /// Carries out the computations whose beginning is known: whether there were any.
    fn compute(&mut self, wiring: &Wiring) -> bool {
        let mut moved = false;
        while let Some(&id) = self.queues[COMPUTE].front() {
            let index = self.slot(id).parts[COMPUTE].next;
            let Some((ready, strips)) = self.next_computation(id, index) else { break };
            self.slot_mut(id).parts[COMPUTE].next += 1;
            if self.slot(id).parts[COMPUTE].is_begun() {
                self.queues[COMPUTE].pop_front();
            }
            let end = self.stream(id, index, &strips, ready, wiring);
            let fetched = Mark { time: self.stages.free[0], record: self.stage_records[0] };
            self.slot_mut(id).fetched.finish(index, fetched);
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
                    let Mark { time, record } = slot.parts[kind].until(count)?;
                    ready = ready.or(time, Cause::Part, record);
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
        let each = [strips.fetch, strips.work, strips.store];
        // When the first strip came, and when the last; what each of these was up to.
        let (mut first, mut last) = (ready, ready);
        for (stage, (unit, done)) in units.into_iter().zip(stages).enumerate() {
            let busy =
                Latest { time: free[stage], cause: Cause::Unit, record: self.stage_records[stage] };
            let began = first.or(busy.time, busy.cause, busy.record);
            // A stage that has nothing to do has no record: what it waits for is what others wait for.
            if each[stage] == Span::ZERO {
                (first, last) = (began, last.or(began.time, began.cause, began.record));
                self.stage_records[stage] = last.record;
                continue;
            }
            let (from, ended) = if done.fed { (last.time, last) } else { (done.start, began) };
            let record = self.record(
                |run| OpRecord {
                    request: run.request,
                    pe: run.node,
                    command: id,
                    part: Part::Compute(index),
                    unit,
                    start: done.start,
                    end: done.end,
                    began: began.reason(),
                    from,
                    ended: ended.reason(),
                },
                wiring,
            );
            self.stage_records[stage] = record;
            first = Latest { time: done.start + each[stage], cause: Cause::Part, record };
            last = Latest { time: done.end, cause: Cause::Part, record };
        }
        last
    }
}

/// DMA.
impl Run {
    /// Begins the accesses that can begin now, and sets an alarm for the next: whether any began.
    fn dma(
        &mut self,
        kind: usize,
        engines: u32,
        node: NodeId,
        context: &mut Context<Message>,
        wiring: &Wiring,
    ) -> bool {
        let mut moved = false;
        let unit = usize::from(kind == STORE);
        while let Some(&id) = self.queues[kind].front() {
            if self.dma[unit].under_way.len() >= engines as usize {
                break;
            }
            let index = self.slot(id).parts[kind].next;
            let Some((ready, dma)) = self.next_access(id, kind, index) else { break };
            if ready.time > context.now() {
                self.set_alarm(unit, ready.time, context);
                break;
            }
            self.slot_mut(id).parts[kind].next += 1;
            if self.slot(id).parts[kind].is_begun() {
                self.queues[kind].pop_front();
            }
            let Some(buffer) = self.buffer(id, kind, index, &dma, wiring) else { return true };
            self.begin(id, kind, index, ready, &dma, buffer, node, context);
            moved = true;
        }
        moved
    }

    /// An access and when it can begin; none if that is not known.
    fn next_access(&self, id: CommandId, kind: usize, index: u32) -> Option<(Latest, Dma)> {
        let slot = self.slot(id);
        let command = slot.command.as_ref().expect("it is under way");
        match &command.work {
            Work::Dma(dma) => Some((self.ready(id, &command.after)?, *dma)),
            Work::Pipeline(pipeline) => {
                let (after, count, dma) = if kind == LOAD {
                    (&command.loads_after, pipeline.load_after(index), pipeline.load(index))
                } else {
                    (&command.after, pipeline.store_after(index), pipeline.store(index))
                };
                let ready = self.ready(id, after)?;
                let before = if kind == LOAD { &slot.fetched } else { &slot.parts[COMPUTE] };
                let Mark { time, record } = before.until(count)?;
                Some((ready.or(time, Cause::Part, record), dma))
            }
            Work::Compute(_) => unreachable!("computations are no accesses"),
        }
    }

    fn set_alarm(&mut self, unit: usize, time: Time, context: &mut Context<Message>) {
        if self.alarms[unit] != Some(time) {
            self.alarms[unit] = Some(time);
            context.wake_after(time - context.now(), super::ALARM);
        }
    }

    /// The buffer that an access fills or is filled from, in data mode; none if that went wrong.
    fn buffer(
        &mut self,
        id: CommandId,
        kind: usize,
        index: u32,
        dma: &Dma,
        wiring: &Wiring,
    ) -> Option<Option<Buffer>> {
        if !self.has_data {
            return Some(None);
        }
        let bytes = if kind == LOAD {
            vec![0; usize::try_from(dma.bytes).expect("it fits memory")]
        } else {
            match self.program.payload(id, index) {
                Ok(bytes) => bytes,
                Err(what) => {
                    self.fail(what, wiring);
                    return None;
                }
            }
        };
        Some(Some(Buffer::new(bytes.into())))
    }

    #[expect(clippy::too_many_arguments, reason = "what an access is made of, in one place")]
    fn begin(
        &mut self,
        command: CommandId,
        kind: usize,
        index: u32,
        ready: Latest,
        dma: &Dma,
        buffer: Option<Buffer>,
        node: NodeId,
        context: &mut Context<Message>,
    ) {
        let now = context.now();
        let unit = usize::from(kind == STORE);
        let from = if ready.time < now { self.dma[unit].held_up(now) } else { ready };
        self.dma[unit].begun = from.mark();
        let unwritten = Rc::new(Cell::new(None));
        let data = buffer.as_ref().map(|buffer| Slice {
            buffer: Rc::clone(buffer),
            offset: 0,
            unwritten: (kind == LOAD).then(|| Rc::clone(&unwritten)),
        });
        let access = VirtualAccess {
            request: self.request,
            direction: dma.direction,
            address: dma.address,
            bytes: dma.bytes,
            rows: dma.rows,
            data,
            done: Done::Core(self.node, token(command, unit, index)),
        };
        let bytes = dma.bytes;
        let flight = Flight { command, index, bytes, from, start: now, buffer, unwritten };
        self.dma[unit].under_way.push(flight);
        context.call(node, Message::IssueVirtual(access));
    }

    fn dma_done(&mut self, wanted: u64, well: bool, now: Time, wiring: &Wiring) {
        let unit = usize::from(wanted & STORE_BIT != 0);
        let under_way = &mut self.dma[unit].under_way;
        let its = |flight: &Flight| token(flight.command, unit, flight.index) == wanted;
        let place = under_way.iter().position(its).expect("it is under way");
        let flight = under_way.remove(place);
        let op = [OpUnit::Load, OpUnit::Store][unit];
        self.report.busy[op as usize] += now - flight.start;
        self.report.moved[unit] += flight.bytes;
        let (id, index) = (flight.command, flight.index);
        let part = if unit == 0 { Part::Load(index) } else { Part::Store(index) };
        let record = self.record(
            |run| OpRecord {
                request: run.request,
                pe: run.node,
                command: id,
                part,
                unit: op,
                start: flight.start,
                end: now,
                began: flight.from.reason(),
                from: flight.start,
                ended: flight.from.reason(),
            },
            wiring,
        );
        self.dma[unit].last = Mark { time: now, record };
        if !well {
            self.state = State::Failed;
            self.queues.iter_mut().for_each(VecDeque::clear);
        }
        if unit == 0
            && let Some(buffer) = flight.buffer
        {
            let loaded = self.program.loaded(id, index, buffer.take(), flight.unwritten.get());
            self.check(loaded, wiring);
        }
        let kind = [LOAD, STORE][unit];
        self.part_done(id, kind, index, Latest { time: now, cause: Cause::Part, record });
    }
}

impl DmaUnit {
    /// What an access waited for that could have begun before now: the engines serve accesses in order, so
    /// it is what the one before it waited for, or the end of one that held an engine.
    fn held_up(&self, now: Time) -> Latest {
        let by = if self.begun.time == now { self.begun } else { self.last };
        Latest { time: now, cause: Cause::Unit, record: by.record }
    }
}

/// Set in the token of a store.
const STORE_BIT: u64 = 1 << 63;

/// What an access is known by while it is under way; the command and direction can be read from it.
fn token(command: CommandId, unit: usize, index: u32) -> u64 {
    u64::from(command) << 31 | u64::from(index) | if unit == 1 { STORE_BIT } else { 0 }
}
