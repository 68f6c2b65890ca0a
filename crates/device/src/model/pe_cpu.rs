//! The processor of a PE: waits for the start of a launch, runs its kernel, and says so.
//!
//! All PEs of a launch start at one instant. `IO_CPU` looks ahead far enough for every command to
//! arrive; if traffic holds one up for longer, all wait for it, so a PE is never late. A PE runs one kernel
//! at a time: a launch that starts while another runs there waits for it.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use cubeyard_sim::{Component, Context, Delivery};

use super::io_cpu::send;
use crate::message::{Command, Message, RequestId};
use crate::pe::{ALARM, Core, Program};

/// `PE_CPU`. What it charges a message is its node's overhead.
#[derive(Debug)]
pub struct PeCpu {
    /// The launches that wait for their start, and those at work.
    launches: BTreeMap<RequestId, Waiting>,
    /// What they run; a launch without a program only takes its time.
    programs: BTreeMap<RequestId, Box<dyn Program>>,
    /// Those that have started and wait for the core.
    queue: VecDeque<RequestId>,
    core: Core,
}

#[derive(Clone, Debug)]
struct Waiting {
    command: Rc<Command>,
    cube: usize,
    pe: usize,
    /// Whether its program has been started.
    started: bool,
}

impl PeCpu {
    /// A processor with its core.
    pub fn new(core: Core) -> Self {
        let (launches, programs) = (BTreeMap::new(), BTreeMap::new());
        Self { launches, programs, queue: VecDeque::new(), core }
    }

    /// Gives it what a launch runs.
    pub fn load(&mut self, launch: RequestId, program: Box<dyn Program>) {
        self.programs.insert(launch, program);
    }

    /// Stops the program of a launch: what it waited for, if it was under way.
    pub fn stop(&mut self, launch: RequestId) -> Option<String> {
        self.core.stop(launch)
    }

    /// Its core.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// Its core, to be changed between events.
    pub(crate) fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Starts the next program if the core is free.
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

    /// A launch is over here.
    fn done(&mut self, request: RequestId, context: &mut Context<Message>) {
        let Waiting { command, cube, pe, .. } =
            self.launches.remove(&request).expect("it was started once");
        let route = command.cubes[cube].pes[pe].back.clone();
        send(context, route, 0, Message::PeDone(command, cube));
        self.next(context);
    }

    /// A launch starts, or one that only takes time is over.
    fn due(&mut self, request: RequestId, context: &mut Context<Message>) {
        let launch = self.launches.get_mut(&request).expect("it was started once");
        if launch.started || !self.programs.contains_key(&request) {
            return self.done(request, context);
        }
        launch.started = true;
        self.queue.push_back(request);
        self.next(context);
    }
}

impl Component for PeCpu {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let Message::CommandPe(command, cube, pe) = delivery.message else {
            unreachable!("PE_CPU is sent launches")
        };
        if command.launch().is_none() {
            self.core.connect(&command, cube, pe, context.node());
            let route = command.cubes[cube].pes[pe].back.clone();
            return send(context, route, 0, Message::PeDone(command, cube));
        }
        context.raise(command.cubes[cube].pes[pe].armed.expect("a launch waits for its PEs"));
        self.launches.insert(command.request, Waiting { command, cube, pe, started: false });
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::Start(request, start) => {
                let launch = self.launches[&request].command.launch();
                let work = launch.expect("only launches are started").work;
                context.wake_after((start - context.now()) + work, request.index() as u64);
            }
            Message::DmaDone(token, well) => {
                if let Some(over) = self.core.dma_done(token, well, context) {
                    self.done(over, context);
                }
            }
            Message::Arrived(arrival) => {
                if self.core.arrived(arrival, context) {
                    self.core_wakes(context);
                }
            }
            Message::CreditBack(port, record) => {
                if self.core.credit(port, record) {
                    self.core_wakes(context);
                }
            }
            Message::Stopped => self.core_wakes(context),
            other => unreachable!("PE_CPU is told to start, and of its accesses: {other:?}"),
        }
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        if token == ALARM {
            return self.core_wakes(context);
        }
        self.due(RequestId::new(usize::try_from(token).expect("set from a request")), context);
    }

    fn waits_for(&self) -> Option<String> {
        let (launch, waiting) = self.launches.first_key_value()?;
        let core = self.core.waits_for().filter(|_| waiting.started);
        Some(core.unwrap_or_else(|| format!("the start of launch {launch}")))
    }
}
