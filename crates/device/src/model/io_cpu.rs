//! The processor of an IO chiplet: hands commands to cubes and gathers their completions.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Asks, Component, Context, Delivery, Route, Send};

use crate::message::{Body, Message, RequestId};

/// `IO_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug, Default)]
pub struct IoCpu {
    /// How many cubes of each command are not done.
    open: BTreeMap<RequestId, usize>,
}

impl Component for IoCpu {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        match delivery.message {
            Message::CommandSip(command) => {
                self.open.insert(command.request, command.cubes.len());
                if let Body::Launch(launch) = &command.body {
                    launch.start.get_or_init(|| context.now() + launch.lead);
                }
                for (number, cube) in command.cubes.iter().enumerate() {
                    let message = Message::CommandCube(Rc::clone(&command), number);
                    send(context, cube.to.clone(), command.bytes(), message);
                }
            }
            Message::CubeDone(command) => {
                if done(&mut self.open, command.request) {
                    let route = command.from_io_cpu.clone();
                    send(context, route, 0, Message::CommandDone(command));
                }
            }
            other => unreachable!("IO_CPU is sent commands: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        waits(&self.open, "cubes")
    }
}

/// Sends a message now.
pub(super) fn send(context: &mut Context<Message>, route: Route, bytes: u64, message: Message) {
    let asks = Asks::At(context.now());
    context.send(Send { route, bytes, asks, message });
}

/// One more part of a command is done: whether it was the last.
pub(super) fn done(open: &mut BTreeMap<RequestId, usize>, command: RequestId) -> bool {
    let left = open.get_mut(&command).expect("only parts of a command under way are done");
    *left -= 1;
    let last = *left == 0;
    if last {
        open.remove(&command);
    }
    last
}

pub(super) fn waits(open: &BTreeMap<RequestId, usize>, what: &str) -> Option<String> {
    let (command, left) = open.first_key_value()?;
    Some(format!("{left} {what} of request {command}"))
}
