//! The core of a PE: dispatches the commands of a program and sees them through its engines.

mod compute;
mod dispatch;
mod dma;
mod due;
mod latest;
mod messages;
mod slot;

use std::collections::VecDeque;
use std::rc::Rc;

use cubeyard_sim::{Context, NodeId, Time};

use super::ipcq::Ports;
use super::progress;
use super::strips::Stages;
use super::{Command, CommandId, CoreReport, OpRecord, Program};
use crate::message::{Failure, Message, RequestId};
use crate::wiring::Wiring;
use dma::DmaUnit;
pub(crate) use dma::command_of;
use due::{ANY, COMPUTE, DISPATCH, Due, LOAD, RECEIVE, SEND, STORE, UNITS};
use latest::Latest;
use messages::{Messages, SLOT_BIT};
use slot::Slot;

/// What runs programs in a PE, one at a time.
#[derive(Debug)]
pub struct Core {
    /// The PE's DMA engines and its MMU.
    dma: NodeId,
    wiring: Rc<Wiring>,
    ports: Ports,
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
    /// Whether races are looked for.
    watched: bool,
    state: State,
    /// The command that waits for a place in the window.
    held: Option<Command>,
    report: CoreReport,
    /// When `PE_CPU` can dispatch again, and why not earlier.
    cpu: Latest,
    next: CommandId,
    /// How many commands may be under way.
    window: u32,
    /// The last commands, each at its number modulo a power of two: at least twice the window, as one under
    /// way may come after another that has left the window since.
    slots: Vec<Slot>,
    /// How many commands are not done.
    open: usize,
    /// The commands that each engine has parts of to begin: loads, computations, stores.
    queues: [VecDeque<CommandId>; 3],
    stages: Stages,
    stage_records: [Option<u32>; 3],
    dma: [DmaUnit; 2],
    /// The end of the last command that is done.
    last: Latest,
    messages: Messages,
    /// The units that may have something to do.
    due: Due,
    /// The alarms of units, [`Time::NEVER`] where none is set; `PE_CPU` has one for the end.
    alarms: [Time; UNITS],
}

/// What `PE_CPU` is at.
#[derive(Clone, Copy, Debug)]
enum State {
    Going,
    /// For a command to be done.
    Waiting(CommandId),
    /// For all commands to be done.
    Fenced,
    /// For a place in the window for the command that is held.
    Holding,
    Ended,
    Failed,
}

impl Core {
    /// A core whose DMA engine is at a node.
    pub fn new(dma: NodeId, wiring: Rc<Wiring>) -> Self {
        Self { dma, wiring, ports: Ports::default(), run: None }
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
        let watched = self.wiring.races(|_| ()).is_some();
        let run = Run { logs, watched, ..Run::new(request, program, context, window) };
        self.run = Some(Box::new(run));
        self.advance(context);
    }

    /// An alarm has come: the program that has ended now, if it has.
    pub fn wake(&mut self, context: &mut Context<Message>) -> Option<RequestId> {
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
        if token & SLOT_BIT != 0 {
            run.slot_read(token, &mut self.ports, self.dma, context, &self.wiring);
        } else {
            run.dma_done(token, well, context.now(), &self.wiring);
        }
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
        let open = run.slots.iter().find(|slot| slot.work.is_some() && !slot.done);
        let what = match (&run.state, open) {
            (State::Waiting(id), _) => self.describe(run, *id),
            (_, Some(_)) => self.describe(run, run.first_open()),
            _ => "its next command".to_owned(),
        };
        Some(what)
    }

    fn describe(&self, run: &Run, id: CommandId) -> String {
        self.message_waits(run, id).unwrap_or_else(|| run.program.describe(id))
    }

    /// Does all that can be done now.
    fn advance(&mut self, context: &mut Context<Message>) {
        let Some(run) = &mut self.run else { return };
        let spec = &self.wiring.topology().spec().pe.core;
        let (ports, dma, wiring) = (&mut self.ports, self.dma, &*self.wiring);
        run.hear_alarms(context.now());
        while !run.due.is_empty() {
            if run.due.take(DISPATCH) {
                run.dispatch(spec, ports, wiring);
            }
            if run.due.take(LOAD) {
                run.dma(LOAD, spec.dma_read_engines, dma, context, wiring);
            }
            if run.due.take(COMPUTE) {
                run.compute(wiring);
            }
            if run.due.take(STORE) {
                run.dma(STORE, spec.dma_write_engines, dma, context, wiring);
            }
            if run.due.take(SEND) {
                run.send(ports, dma, context, wiring);
            }
            if run.due.take(ANY) {
                run.choose(ports, context, wiring);
            }
            if run.due.take(RECEIVE) {
                run.receive(ports, dma, context, wiring);
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
        window: u32,
    ) -> Self {
        let now = context.now();
        let start = Latest { time: now, ..Latest::default() };
        Self {
            request,
            node: context.node(),
            has_data: program.has_data(),
            program,
            logs: false,
            watched: false,
            state: State::Going,
            held: None,
            report: CoreReport { started: now, ..CoreReport::default() },
            cpu: start,
            next: 0,
            window,
            slots: (0..(2 * window).next_power_of_two()).map(|_| Slot::default()).collect(),
            open: 0,
            queues: <[VecDeque<CommandId>; 3]>::default(),
            stages: Stages { free: [now; 3] },
            stage_records: [None; 3],
            dma: <[DmaUnit; 2]>::default(),
            last: start,
            messages: Messages::default(),
            due: Due::default(),
            alarms: [Time::NEVER; UNITS],
        }
    }

    fn slot(&self, id: CommandId) -> &Slot {
        &self.slots[id as usize & (self.slots.len() - 1)]
    }

    fn slot_mut(&mut self, id: CommandId) -> &mut Slot {
        let place = id as usize & (self.slots.len() - 1);
        &mut self.slots[place]
    }

    /// The first command that is not done.
    fn first_open(&self) -> CommandId {
        let oldest = self.next.saturating_sub(self.window);
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

    /// Takes the alarms that are set for now. Who receives has one for several ports, so that it looks again
    /// whatever time it is.
    fn hear_alarms(&mut self, now: Time) {
        for (unit, alarm) in self.alarms.iter_mut().enumerate() {
            let several = unit == ANY || unit == RECEIVE;
            if *alarm <= now || several && *alarm < Time::NEVER {
                self.due.add(unit);
            }
            if *alarm <= now {
                *alarm = Time::NEVER;
            }
        }
    }

    fn set_alarm(&mut self, unit: usize, time: Time, context: &mut Context<Message>) {
        if self.alarms[unit] != time {
            self.alarms[unit] = time;
            context.wake_after(time - context.now(), super::ALARM);
        }
    }

    fn set_alarm_for_the_end(&mut self, context: &mut Context<Message>) {
        if self.is_over() && self.alarms[DISPATCH] == Time::NEVER {
            self.set_alarm(DISPATCH, self.end().max(context.now()), context);
        }
    }

    fn fail(&mut self, what: String, wiring: &Wiring) {
        wiring.fail(self.request, Failure { origin: self.node, what });
        self.state = State::Failed;
        self.queues.iter_mut().for_each(VecDeque::clear);
        self.messages.sends.clear();
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
