//! The processor of a PE: waits for the start of a launch, works, and says so.
//!
//! All PEs of a launch start at one instant. `IO_CPU` looks ahead far enough for every command to
//! arrive; if traffic holds one up for longer, all wait for it, so a PE is never late.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubeyard_sim::{Component, Context, Delivery};

use super::io_cpu::send;
use crate::message::{Command, Message, RequestId};

/// `PE_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug, Default)]
pub struct PeCpu {
    /// The launches that wait for their start, and those at work.
    launches: BTreeMap<RequestId, Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    command: Arc<Command>,
    cube: usize,
    pe: usize,
}

impl Component for PeCpu {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let Message::CommandPe(command, cube, pe) = delivery.message else {
            unreachable!("PE_CPU is sent launches")
        };
        context.raise(command.cubes[cube].pes[pe].armed.expect("a launch waits for its PEs"));
        self.launches.insert(command.request, Waiting { command, cube, pe });
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        let Message::Start(request, start) = message else {
            unreachable!("PE_CPU is told to start")
        };
        let launch = self.launches[&request].command.launch();
        let work = launch.expect("only launches are started").work;
        context.wake_after((start - context.now()) + work, request.index() as u64);
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        let request = RequestId::new(usize::try_from(token).expect("set from a request"));
        let Waiting { command, cube, pe } =
            self.launches.remove(&request).expect("it was started once");
        let route = command.cubes[cube].pes[pe].back.clone();
        send(context, &route, 0, Message::PeDone(command, cube));
    }

    fn waits_for(&self) -> Option<String> {
        let (launch, _) = self.launches.first_key_value()?;
        Some(format!("the start of launch {launch}"))
    }
}
