//! Dispatch of commands by `PE_CPU` to the engines.

use std::rc::Rc;

use cubeyard_sim::{NodeId, Span};

use super::latest::Latest;
use super::slot::{CommandEnd, Pipelined, kind_of};
use super::{COMPUTE, DISPATCH, LOAD, Ports, Run, STORE, State, VECTOR};
use crate::message::{Direction, RequestId};
use crate::pe::packed::Packed;
use crate::pe::{CommandId, CommandPart, Instruction, OpCause, OpUnit, Work};
use crate::race::Races;
use crate::topology::CoreSpec;

impl Run {
    pub(super) fn dispatch(&mut self, spec: &CoreSpec, ports: &mut Ports) {
        loop {
            match self.state {
                State::Going if self.commands.is_next() => {
                    self.spend(spec.dispatch);
                    self.state = State::Holding;
                }
                State::Going => match self.commands.ask(&mut *self.program) {
                    Ok(Some(Instruction::Dispatch(count))) => {
                        self.spend(spec.dispatch * u64::from(count));
                    }
                    Ok(Some(instruction)) => {
                        self.spend(spec.dispatch);
                        self.state = match instruction {
                            Instruction::Wait(id) => State::Waiting(id),
                            Instruction::Fence => State::Fenced,
                            _ => State::Holding,
                        };
                    }
                    Ok(None) => self.state = State::Ended,
                    Err(what) => self.fail(what),
                },
                State::Waiting(id) => {
                    let Some(end) = self.done(id) else { return self.due.wait(DISPATCH, id) };
                    self.state = State::Going;
                    self.cpu = self.cpu.or(end.time, OpCause::Window, end.record);
                    self.tell(|races, launch, pe| races.knowledge.waited((launch, pe), id));
                }
                State::Fenced => {
                    if self.open > 0 {
                        return;
                    }
                    self.state = State::Going;
                    self.cpu = self.cpu.or(self.last.time, OpCause::Window, self.last.record);
                    self.tell(|races, launch, pe| races.knowledge.fenced((launch, pe)));
                }
                State::Holding => {
                    if let Some(before) = self.before_place() {
                        return self.due.wait(DISPATCH, before);
                    }
                    self.state = State::Going;
                    self.place(spec.scheduler_overhead, ports);
                }
                State::Ended | State::Failed => return,
            }
        }
    }

    /// Reports an event that orders commands to the race detector.
    pub(super) fn tell<T>(
        &self,
        what: impl FnOnce(&mut Races, RequestId, NodeId) -> T,
    ) -> Option<T> {
        let act = |races: &mut Races| what(races, self.request, self.node);
        if self.watched { self.shared.races.with(act) } else { None }
    }

    fn spend(&mut self, span: Span) {
        let (before, start) = (self.cpu, self.cpu.time);
        self.cpu.time += span;
        self.report.busy[OpUnit::Cpu as usize] += span;
        let end = self.cpu.time;
        let record =
            self.record(self.next, CommandPart::Compute(0), OpUnit::Cpu, before, start, end);
        self.cpu = Latest::new(self.cpu.time, OpCause::Dispatch, record);
    }

    /// Returns the completion time of a command; `None` while it is pending. Commands before the window were done
    /// before the last dispatch.
    fn done(&self, id: CommandId) -> Option<Latest> {
        if u64::from(id) + u64::from(self.window) < u64::from(self.next) || id >= self.next {
            return Some(Latest::default());
        }
        self.end_of(id).done_at()
    }

    /// Returns the command that must be done before the next command fits into the window, if the window is full.
    fn before_place(&self) -> Option<CommandId> {
        self.next.checked_sub(self.window).filter(|&before| !self.end_of(before).is_done)
    }

    /// Issues the next command, which fits into the window.
    fn place(&mut self, overhead: Span, ports: &mut Ports) {
        if let Some(before) = self.next.checked_sub(self.window) {
            let end = self.end_of(before).latest();
            self.cpu = self.cpu.or(end.time, OpCause::Window, end.record);
        }
        let id = self.next;
        let packed = self.commands.place(id);
        self.tell(|races, launch, pe| {
            let command = self.commands.unpack(id, packed);
            races.knowledge.issued((launch, pe), id, &command, self.window);
        });
        let issued = Latest { time: self.cpu.time + overhead, ..self.cpu };
        self.slot_mut(id).open(packed);
        *self.end_of_mut(id) = CommandEnd::open(issued);
        self.next += 1;
        self.open += 1;
        self.report.commands += 1;
        self.issue(id, packed, ports);
    }

    fn issue(&mut self, id: CommandId, packed: Packed, ports: &mut Ports) {
        match packed {
            Packed::Dma { direction, .. } => self.stand(dma_engine(direction), id),
            Packed::Compute(place, _) => self.stand(self.engine_at(place), id),
            Packed::Send(message, _) => self.issue_send(id, message, ports),
            Packed::Receive(message, _) => self.issue_receive(id, message, ports),
            _ => self.issue_long(id, ports),
        }
    }

    fn issue_long(&mut self, id: CommandId, ports: &mut Ports) {
        match self.long(id).expect("only commands are given places") {
            Work::Dma(dma) => self.stand(dma_engine(dma.direction), id),
            &Work::Compute(strips) => self.stand(self.engine(strips.unit), id),
            &Work::Send(message) => self.issue_send(id, message, ports),
            &Work::Receive(message) => self.issue_receive(id, message, ports),
            &Work::ReceiveInSlot(message, usage) => self.issue_in_slot(id, message, usage, ports),
            Work::Release(_) => self.issue_release(id),
            Work::ReceiveAny(any) => {
                let any = Rc::clone(any);
                self.issue_any(id, &any, ports);
            }
            Work::Pipeline(pipeline) => {
                let counts = pipeline.parts();
                self.issue_pipeline(id, counts);
            }
        }
    }

    fn issue_pipeline(&mut self, id: CommandId, parts: [u32; 3]) {
        let command = self.long_command(id).expect("a pipeline is not packed");
        let before = command.before();
        let issued = self.end_of(id).latest();
        let first = self.first_parts(id, parts[COMPUTE]);
        self.slot_mut(id).pipelined = Some(Pipelined::new(parts, first, issued, before));
        for unit in [LOAD, COMPUTE, STORE, VECTOR] {
            if first[unit] < parts[kind_of(unit)] {
                self.stand(unit, id);
            }
        }
        if parts == [0; 3] {
            self.command_done(id);
        }
    }
}

fn dma_engine(direction: Direction) -> usize {
    match direction {
        Direction::Read => LOAD,
        Direction::Write => STORE,
    }
}
