//! Dispatch: what `PE_CPU` does, and commands on their way to the engines.

use cubeyard_sim::{NodeId, Span};

use super::latest::Latest;
use super::{DISPATCH, Ports, Run, State};
use crate::message::{Direction, RequestId};
use crate::pe::{Cause, Command, CommandId, Next, OpRecord, OpUnit, Part, Work};
use crate::race::Races;
use crate::topology::CoreSpec;
use crate::wiring::Wiring;

impl Run {
    /// Lets `PE_CPU` go on as far as it can.
    pub(super) fn dispatch(&mut self, spec: &CoreSpec, ports: &mut Ports, wiring: &Wiring) {
        loop {
            match self.state {
                State::Going => match self.program.next() {
                    Next::Command(command) => {
                        self.spend(spec.dispatch, wiring);
                        self.held = Some(command);
                        self.state = State::Holding;
                    }
                    Next::Wait(id) => {
                        self.spend(spec.dispatch, wiring);
                        self.state = State::Waiting(id);
                    }
                    Next::Fence => {
                        self.spend(spec.dispatch, wiring);
                        self.state = State::Fenced;
                    }
                    Next::Dispatch(count) => self.spend(spec.dispatch * u64::from(count), wiring),
                    Next::End => self.state = State::Ended,
                    Next::Failed(what) => self.fail(what, wiring),
                },
                State::Waiting(id) => {
                    let Some(end) = self.done(id) else { return self.due.wait(DISPATCH, id) };
                    self.state = State::Going;
                    self.cpu = self.cpu.or(end.time, Cause::Window, end.record);
                    self.tell(wiring, |races, launch, pe| races.waited_for(launch, pe, id));
                }
                State::Fenced => {
                    if self.open > 0 {
                        return;
                    }
                    self.state = State::Going;
                    self.cpu = self.cpu.or(self.last.time, Cause::Window, self.last.record);
                    self.tell(wiring, Races::fenced);
                }
                State::Holding => {
                    if let Some(before) = self.before_place() {
                        return self.due.wait(DISPATCH, before);
                    }
                    self.state = State::Going;
                    let command = self.held.take().expect("one is held");
                    self.place(command, spec.scheduler_overhead, ports, wiring);
                }
                State::Ended | State::Failed => return,
            }
        }
    }

    /// Tells those who look for races of something that orders commands.
    pub(super) fn tell<T>(
        &self,
        wiring: &Wiring,
        what: impl FnOnce(&mut Races, RequestId, NodeId) -> T,
    ) -> Option<T> {
        let act = |races: &mut Races| what(races, self.request, self.node);
        if self.watched { wiring.races(act) } else { None }
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

    /// When a command was done; none if it is not. Those before the window were done before the last
    /// dispatch.
    fn done(&self, id: CommandId) -> Option<Latest> {
        if u64::from(id) + u64::from(self.window) < u64::from(self.next) || id >= self.next {
            return Some(Latest::default());
        }
        self.slot(id).done_at()
    }

    /// The command that must be done before there is a place in the window for the next, if there is none.
    fn before_place(&self) -> Option<CommandId> {
        self.next.checked_sub(self.window).filter(|&before| !self.slot(before).done)
    }

    /// Issues a command, for which there is a place in the window.
    fn place(&mut self, command: Command, overhead: Span, ports: &mut Ports, wiring: &Wiring) {
        if let Some(before) = self.next.checked_sub(self.window) {
            let end = self.slot(before).end;
            self.cpu = self.cpu.or(end.time, Cause::Window, end.record);
        }
        self.tell(wiring, |races, launch, pe| {
            races.issued(launch, pe, self.next, &command, self.window);
        });
        self.issue(command, overhead);
        self.issue_message(self.next - 1, ports, wiring);
    }

    fn issue(&mut self, command: Command, overhead: Span) {
        let parts = match &command.work {
            Work::Dma(dma) if dma.direction == Direction::Read => [1, 0, 0],
            Work::Dma(_) => [0, 0, 1],
            Work::Compute(_) => [0, 1, 0],
            Work::Pipeline(pipeline) => pipeline.parts(),
            Work::Send(_) | Work::Receive(_) | Work::ReceiveAny(_) => [0; 3],
        };
        let is_message = command.work.is_message();
        let id = self.next;
        let issued = Latest { time: self.cpu.time + overhead, ..self.cpu };
        self.slot_mut(id).begin(command, issued, parts);
        self.next += 1;
        self.open += 1;
        self.report.commands += 1;
        for (unit, (queue, count)) in self.queues.iter_mut().zip(parts).enumerate() {
            if count > 0 {
                queue.push_back(id);
                self.due.add(unit);
            }
        }
        if parts == [0; 3] && !is_message {
            self.command_done(id);
        }
    }
}
