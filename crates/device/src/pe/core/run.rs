//! A program running on a core.

use std::rc::Rc;

use cubeyard_sim::{Context, NodeId, Time};

use super::Shared;
use super::commands::Commands;
use super::compute::ComputeEngine;
use super::dma::DmaUnit;
use super::due::{ANY, DISPATCH, Due, RECEIVE, UNITS};
use super::latest::Latest;
use super::messages::Messages;
use super::queue::Queue;
use super::slot::{CommandEnd, Slot};
use crate::message::{Message, RequestId};
use crate::pe::{ALARM, CommandId, CommandPart, CoreReport, OpRecord, OpUnit, Program};
use crate::topology::ComputeEngines;

/// Running program. Frequently used fields come first and close together: a machine has many cores, and caches do not
/// hold all of them.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Run {
    pub(super) due: Due,
    /// Bit mask of the units that have an alarm.
    pub(super) alarmed: u8,
    pub(super) state: State,
    /// Number of pending commands.
    pub(super) open: usize,
    pub(super) next: CommandId,
    /// Largest number of commands in flight.
    pub(super) window: u32,
    /// Alarms of the units; [`Time::NEVER`] where none is set. The alarm of `PE_CPU` is for the end.
    pub(super) alarms: [Time; UNITS],
    /// Most recent commands, each at its number modulo the length: a power of two, at least the window.
    pub(super) slots: Box<[Slot]>,
    /// Ends of the most recent commands, at least twice the window: a dependency may have left the window since.
    pub(super) ends: Box<[CommandEnd]>,
    /// Time at which `PE_CPU` can dispatch again, and its cause.
    pub(super) cpu: Latest,
    /// End of the last command that is done.
    pub(super) last: Latest,
    /// Queues for loads, computations, stores, computations of a separate vector unit, and sends.
    pub(super) queues: [Queue; 5],
    pub(super) commands: Commands,
    pub(super) messages: Messages,
    pub(super) dma: [DmaUnit; 2],
    pub(super) shared: Rc<Shared>,
    pub(super) request: RequestId,
    /// Node of `PE_CPU`.
    pub(super) node: NodeId,
    /// Node of the PE's DMA engines and its MMU.
    pub(super) dma_node: NodeId,
    pub(super) has_data: bool,
    pub(super) logs: bool,
    pub(super) watched: bool,
    /// Whether GEMM and MATH have separate engines.
    pub(super) is_separate: bool,
    pub(super) engines: [ComputeEngine; 2],
    pub(super) report: CoreReport,
    pub(super) program: Box<dyn Program>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Going,
    /// Waiting for a command to be done.
    Waiting(CommandId),
    /// Waiting for all commands to be done.
    Fenced,
    /// Waiting for a place in the window for the next command.
    Holding,
    Ended,
    Failed,
}

impl Run {
    pub(super) fn new(
        request: RequestId,
        program: Box<dyn Program>,
        dma_node: NodeId,
        shared: &Rc<Shared>,
        context: &Context<Message>,
    ) -> Self {
        let spec = &shared.wiring.topology().spec().pe.core;
        let window = spec.window;
        let now = context.now();
        let start = Latest { time: now, ..Latest::default() };
        let slots = window.next_power_of_two() as usize;
        Self {
            due: Due::default(),
            alarmed: 0,
            state: State::Going,
            open: 0,
            next: 0,
            window,
            alarms: [Time::NEVER; UNITS],
            slots: (0..slots).map(|_| Slot::default()).collect(),
            ends: vec![CommandEnd::default(); 2 * slots].into(),
            cpu: start,
            last: start,
            queues: [Queue::default(); 5],
            commands: Commands::new(&*program, slots),
            messages: Messages::default(),
            dma: <[DmaUnit; 2]>::default(),
            shared: Rc::clone(shared),
            request,
            node: context.node(),
            dma_node,
            has_data: program.has_data(),
            logs: shared.ops.borrow().is_kept(),
            watched: shared.races.is_on(),
            is_separate: spec.compute_engines == ComputeEngines::Separate,
            engines: [ComputeEngine::new(now); 2],
            report: CoreReport { started: now, ..CoreReport::default() },
            program,
        }
    }

    pub(super) fn slot(&self, id: CommandId) -> &Slot {
        &self.slots[id as usize & (self.slots.len() - 1)]
    }

    pub(super) fn slot_mut(&mut self, id: CommandId) -> &mut Slot {
        let place = id as usize & (self.slots.len() - 1);
        &mut self.slots[place]
    }

    pub(super) fn end_of(&self, id: CommandId) -> CommandEnd {
        self.ends[id as usize & (self.ends.len() - 1)]
    }

    pub(super) fn end_of_mut(&mut self, id: CommandId) -> &mut CommandEnd {
        let place = id as usize & (self.ends.len() - 1);
        &mut self.ends[place]
    }

    pub(super) fn first_open(&self) -> CommandId {
        let oldest = self.next.saturating_sub(self.window);
        (oldest..self.next).find(|&id| !self.end_of(id).is_done).unwrap_or(oldest)
    }

    pub(super) fn is_over(&self) -> bool {
        match self.state {
            State::Ended => self.open == 0,
            State::Failed => {
                let is_idle = self.dma.iter().all(|unit| unit.under_way.is_empty());
                is_idle && self.messages.is_idle()
            }
            _ => false,
        }
    }

    pub(super) fn end(&self) -> Time {
        self.last.time.max(self.cpu.time)
    }

    /// Takes the alarms that are due. Receivers share one alarm for several ports, so every alarm makes them due.
    pub(super) fn hear_alarms(&mut self, now: Time) {
        let mut left = self.alarmed;
        while left != 0 {
            let unit = left.trailing_zeros() as usize;
            left &= left - 1;
            let is_over = self.alarms[unit] <= now;
            if is_over || unit == ANY || unit == RECEIVE {
                self.due.add(unit);
            }
            if is_over {
                self.alarms[unit] = Time::NEVER;
                self.alarmed &= !(1 << unit);
            }
        }
    }

    /// Sets the alarm of a unit. Alarms at the same instant share one event.
    pub(super) fn set_alarm(&mut self, unit: usize, time: Time, context: &mut Context<Message>) {
        if !self.alarms.contains(&time) {
            context.wake_after(time - context.now(), ALARM);
        }
        self.alarms[unit] = time;
        self.alarmed |= 1 << unit;
    }

    pub(super) fn set_alarm_for_the_end(&mut self, context: &mut Context<Message>) {
        if self.is_over() && self.alarms[DISPATCH] == Time::NEVER {
            self.set_alarm(DISPATCH, self.end().max(context.now()), context);
        }
    }

    pub(super) fn fail(&mut self, what: String) {
        self.shared.failures.note(self.request, self.node, what);
        self.abort();
    }

    /// Stops any further command from beginning.
    pub(super) fn abort(&mut self) {
        self.state = State::Failed;
        self.queues = Default::default();
    }

    pub(super) fn check(&mut self, result: Result<(), String>) {
        if let Err(what) = result {
            self.fail(what);
        }
    }

    /// Records an operation that depended on its unit alone from start to end, if operations are kept.
    pub(super) fn record(
        &self,
        command: CommandId,
        part: CommandPart,
        unit: OpUnit,
        after: Latest,
        start: Time,
        end: Time,
    ) -> Option<u32> {
        if !self.logs {
            return None;
        }
        let (began, busy) = (after.reason(), end - start);
        let (request, pe, from, ended) = (self.request, self.node, start, began);
        let record =
            OpRecord { request, pe, command, part, unit, start, end, busy, began, from, ended };
        self.log(record)
    }

    pub(super) fn log(&self, record: OpRecord) -> Option<u32> {
        self.shared.ops.borrow_mut().push(record)
    }
}
