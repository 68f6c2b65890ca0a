//! The processor of a PE: waits for the start of a launch, works, and says so.
//!
//! All PEs of a launch start at one instant. `IO_CPU` looks ahead far enough for every command to
//! arrive; if traffic holds one up for longer, all wait for it, so a PE is never late.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubeyard_sim::{Asks, Component, Context, Delivery, Send, Time};

use crate::message::{Launch, Message, RequestId};

/// `PE_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug, Default)]
pub struct PeCpu {
    /// The launches that wait for their start, and those at work.
    launches: BTreeMap<RequestId, Waiting>,
    started: BTreeMap<RequestId, Time>,
}

#[derive(Clone, Debug)]
struct Waiting {
    launch: Arc<Launch>,
    cube: usize,
    pe: usize,
}

impl PeCpu {
    /// When it started on a launch.
    pub fn started(&self, launch: RequestId) -> Option<Time> {
        self.started.get(&launch).copied()
    }
}

impl Component for PeCpu {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let Message::LaunchPe(launch, cube, pe) = delivery.message else {
            unreachable!("PE_CPU is sent launches")
        };
        context.raise(launch.cubes[cube].pes[pe].armed);
        self.launches.insert(launch.request, Waiting { launch, cube, pe });
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        let Message::Start(request, start) = message else {
            unreachable!("PE_CPU is told to start")
        };
        self.started.insert(request, start);
        let work = self.launches[&request].launch.work;
        context.wake_after((start - context.now()) + work, request.index() as u64);
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        let request = RequestId::new(usize::try_from(token).expect("set from a request"));
        let Waiting { launch, cube, pe } =
            self.launches.remove(&request).expect("it was started once");
        let route = launch.cubes[cube].pes[pe].back.clone();
        let (asks, message) = (Asks::At(context.now()), Message::PeDone(launch, cube));
        context.send(Send { route, bytes: 0, asks, message });
    }

    fn waits_for(&self) -> Option<String> {
        let (launch, _) = self.launches.first_key_value()?;
        Some(format!("the start of launch {launch}"))
    }
}
