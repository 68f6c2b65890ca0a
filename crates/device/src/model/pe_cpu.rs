//! The processor of a PE: waits for the start of a launch, runs the kernel, and reports its end.
//!
//! All PEs of a launch start at one instant. `IO_CPU` chooses it late enough for every command to arrive. If traffic
//! delays a command beyond it, all PEs wait, so no PE starts late. A PE runs one kernel at a time: a launch that starts
//! while another one is running there waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use cubeyard_sim::Context;

use super::io_cpu::send;
use crate::message::{CommandTarget, Launch, MCpuMessage, Message, PeCpuMessage, RequestId};
use crate::pe::{ALARM, Core, Program};

/// Processor of a PE, `PE_CPU`. Each message pays the overhead of its node.
#[derive(Debug)]
pub struct PeCpu {
    /// Launches that wait for their start or are running.
    launches: BTreeMap<RequestId, PendingLaunch>,
    /// Programs of the launches; a launch without a program only takes time.
    programs: BTreeMap<RequestId, Box<dyn Program>>,
    /// Launches that have started and wait for the core.
    queue: VecDeque<RequestId>,
    core: Core,
}

#[derive(Clone, Debug)]
struct PendingLaunch {
    target: CommandTarget,
    launch: Rc<Launch>,
    started: bool,
}

impl PeCpu {
    pub(crate) fn new(core: Core) -> Self {
        let (launches, programs) = (BTreeMap::new(), BTreeMap::new());
        Self { launches, programs, queue: VecDeque::new(), core }
    }

    pub(crate) fn load(&mut self, launch: RequestId, program: Box<dyn Program>) {
        self.programs.insert(launch, program);
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn next(&mut self, context: &mut Context<Message>) {
        if self.core.is_busy() {
            return;
        }
        if let Some(request) = self.queue.pop_front() {
            let program = self.programs.remove(&request).expect("only programs stand in line");
            self.core.start(request, program, context);
        }
    }

    fn core_wakes(&mut self, context: &mut Context<Message>) {
        if let Some(over) = self.core.wake(context) {
            self.done(over, context);
        }
    }

    /// Reports the end of a launch on this PE.
    fn done(&mut self, request: RequestId, context: &mut Context<Message>) {
        let waiting = self.launches.remove(&request).expect("it was started once");
        report(waiting.target, context);
        self.next(context);
    }

    /// Starts the program of a launch, or ends a launch that has none.
    fn due(&mut self, request: RequestId, context: &mut Context<Message>) {
        let launch = self.launches.get_mut(&request).expect("it was started once");
        if launch.started || !self.programs.contains_key(&request) {
            return self.done(request, context);
        }
        launch.started = true;
        self.queue.push_back(request);
        self.next(context);
    }

    pub(super) fn handle(&mut self, message: PeCpuMessage, context: &mut Context<Message>) {
        match message {
            PeCpuMessage::Launch(target, launch) => {
                context.raise(launch.armed[target.index()]);
                let waiting = PendingLaunch { target, launch, started: false };
                self.launches.insert(waiting.target.command.request, waiting);
            }
            PeCpuMessage::Ports(target, change) => {
                self.core.connect(&target, &change, context.node());
                report(target, context);
            }
            PeCpuMessage::Start(request, start) => {
                let work = self.launches[&request].launch.work;
                context.wake_after((start - context.now()) + work, request.index() as u64);
            }
            PeCpuMessage::DmaDone(token, well) => {
                if let Some(over) = self.core.dma_done(token, well, context) {
                    self.done(over, context);
                }
            }
            PeCpuMessage::Arrived(arrival) => {
                if self.core.arrived(arrival, context) {
                    self.core_wakes(context);
                }
            }
            PeCpuMessage::Credit(port, record) => {
                if self.core.credit(port, record) {
                    self.core_wakes(context);
                }
            }
            PeCpuMessage::Stopped => self.core_wakes(context),
        }
    }

    pub(super) fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        if token == ALARM {
            return self.core_wakes(context);
        }
        self.due(RequestId::new(usize::try_from(token).expect("set from a request")), context);
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        let (launch, waiting) = self.launches.first_key_value()?;
        let core = self.core.waits_for().filter(|_| waiting.started);
        Some(core.unwrap_or_else(|| format!("the start of launch {launch}")))
    }
}

/// Tells `M_CPU` that a command is done on this PE.
fn report(target: CommandTarget, context: &mut Context<Message>) {
    send(context, target.at().back.clone(), 0, MCpuMessage::PeDone(target));
}
