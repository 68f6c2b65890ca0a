//! The core of a PE: dispatches the commands of a program to the PE's engines.

mod commands;
mod compute;
mod dispatch;
mod dma;
mod due;
mod latest;
mod messages;
mod queue;
mod run;
mod slot;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Context, NodeId};

use super::ipcq::Ports;
use super::progress;
use super::{CommandId, CoreReport, OpLog, Program};
use crate::failure::Failures;
use crate::message::{Message, RequestId};
use crate::notice::Notices;
use crate::race::RaceDetector;
use crate::wiring::Wiring;
pub(crate) use dma::command_of;
use due::{ANY, COMPUTE, DISPATCH, LOAD, RECEIVE, SEND, STORE, VECTOR};
use messages::SLOT_BIT;
use run::{Run, State};

/// Engine that runs programs in a PE, one at a time.
#[derive(Debug)]
pub(crate) struct Core {
    /// Node of the PE's DMA engines and its MMU.
    dma: NodeId,
    shared: Rc<Shared>,
    ports: Ports,
    run: Option<Box<Run>>,
    /// Reports of programs that have ended, until their launch is retired.
    reports: BTreeMap<RequestId, CoreReport>,
}

/// State that the PEs of a machine share with the machine.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) wiring: Wiring,
    pub(crate) failures: Failures,
    pub(crate) notices: RefCell<Notices>,
    pub(crate) races: RaceDetector,
    pub(crate) ops: RefCell<OpLog>,
    /// Number of messages in slots that no program has received.
    pub(crate) mail: Cell<u64>,
}

impl Core {
    pub(crate) fn new(dma: NodeId, shared: Rc<Shared>) -> Self {
        Self { dma, shared, ports: Ports::default(), run: None, reports: BTreeMap::new() }
    }

    pub(crate) fn report(&self, launch: RequestId) -> Option<CoreReport> {
        self.reports.get(&launch).copied()
    }

    pub(crate) fn forget(&mut self, launch: RequestId) {
        self.reports.remove(&launch);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.run.is_some()
    }

    /// Starts a program at the current time.
    ///
    /// # Panics
    /// If a program is running.
    pub(crate) fn start(
        &mut self,
        request: RequestId,
        program: Box<dyn Program>,
        context: &mut Context<Message>,
    ) {
        assert!(self.run.is_none(), "one program at a time");
        let run = Run::new(request, program, self.dma, &self.shared, context);
        self.run = Some(Box::new(run));
        self.advance(context);
    }

    /// Continues at an alarm, and returns the launch if its program has ended.
    pub(crate) fn wake(&mut self, context: &mut Context<Message>) -> Option<RequestId> {
        self.advance(context);
        self.ended(context)
    }

    /// Continues after an access of the program, and returns the launch if its program has ended.
    pub(crate) fn dma_done(
        &mut self,
        token: u64,
        well: bool,
        context: &mut Context<Message>,
    ) -> Option<RequestId> {
        let run = self.run.as_mut().expect("a program waits for its accesses");
        if token & SLOT_BIT != 0 {
            run.slot_read(token, &mut self.ports, context);
        } else {
            run.dma_done(token, well, context.now());
        }
        self.advance(context);
        self.ended(context)
    }

    /// Stops the program of a launch if it is running, and describes the event that it waited for.
    pub(crate) fn stop(&mut self, launch: RequestId) -> Option<String> {
        let waits = self.waits_for();
        let run = self.run.as_mut().filter(|run| run.request == launch)?;
        run.fail("it was stopped".to_owned());
        waits
    }

    /// Describes the event that the program waits for.
    pub(crate) fn waits_for(&self) -> Option<String> {
        let run = self.run.as_ref()?;
        let what = match run.state {
            State::Waiting(id) => self.describe(run, id),
            _ if run.open > 0 => self.describe(run, run.first_open()),
            _ => "its next command".to_owned(),
        };
        Some(what)
    }

    fn describe(&self, run: &Run, id: CommandId) -> String {
        self.message_waits(run, id).unwrap_or_else(|| run.program.describe(id))
    }

    fn advance(&mut self, context: &mut Context<Message>) {
        let Some(run) = &mut self.run else { return };
        let (spec, ports) = (&self.shared.wiring.topology().spec().pe.core, &mut self.ports);
        run.hear_alarms(context.now());
        while !run.due.is_empty() {
            if run.due.take(DISPATCH) {
                run.dispatch(spec, ports);
            }
            if run.due.take(LOAD) {
                run.dma(LOAD, spec.dma_read_engines, context);
            }
            if run.due.take(COMPUTE) {
                run.compute(COMPUTE);
            }
            if run.due.take(VECTOR) {
                run.compute(VECTOR);
            }
            if run.due.take(STORE) {
                run.dma(STORE, spec.dma_write_engines, context);
            }
            if run.due.take(SEND) {
                run.send(ports, context);
            }
            if run.due.take(ANY) {
                run.choose(ports, context);
            }
            if run.due.take(RECEIVE) {
                run.receive(ports, context);
            }
        }
        run.set_alarm_for_the_end(context);
    }

    /// Returns the launch if its program has ended.
    fn ended(&mut self, context: &Context<Message>) -> Option<RequestId> {
        let run = self.run.as_ref()?;
        if !run.is_over() || run.end() > context.now() {
            return None;
        }
        let run = self.run.take().expect("it is there");
        if matches!(run.state, State::Failed) {
            self.leave_ports(&run);
        }
        let report = CoreReport { ended: context.now(), ..run.report };
        self.reports.insert(run.request, report);
        Some(run.request)
    }
}
