//! The processor of an IO chiplet: distributes commands to cubes and collects their completions.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Asks, Context, Route, TransferSpec};

use crate::message::{CommandBody, HostMessage, IoCpuMessage, MCpuMessage, Message, RequestId};

/// Processor of an IO chiplet, `IO_CPU`. Each message pays the overhead of its node.
#[derive(Clone, Debug, Default)]
pub struct IoCpu {
    cubes: Open,
}

impl IoCpu {
    pub(super) fn handle(&mut self, message: IoCpuMessage, context: &mut Context<Message>) {
        match message {
            IoCpuMessage::Command(command) => {
                self.cubes.begin(command.request, command.cubes.len());
                if let CommandBody::Launch(launch) = &command.body {
                    launch.start.get_or_init(|| context.now() + launch.lead);
                }
                for (number, cube) in (0..).zip(command.cubes.iter()) {
                    let message = MCpuMessage::Command(Rc::clone(&command), number);
                    send(context, cube.to.clone(), command.bytes(), message);
                }
            }
            IoCpuMessage::CubeDone(command) => {
                if self.cubes.finish(command.request) {
                    let route = command.from_io_cpu.clone();
                    send(context, route, 0, HostMessage::Done(command));
                }
            }
        }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        self.cubes.waits_for("cubes")
    }
}

/// Number of pending parts of each command.
#[derive(Clone, Debug, Default)]
pub(super) struct Open(BTreeMap<RequestId, usize>);

impl Open {
    pub(super) fn begin(&mut self, command: RequestId, parts: usize) {
        self.0.insert(command, parts);
    }

    /// Records the completion of one part, and returns whether it was the last.
    pub(super) fn finish(&mut self, command: RequestId) -> bool {
        let left = self.0.get_mut(&command).expect("only parts of a command under way are done");
        *left -= 1;
        let last = *left == 0;
        if last {
            self.0.remove(&command);
        }
        last
    }

    pub(super) fn waits_for(&self, what: &str) -> Option<String> {
        let (command, left) = self.0.first_key_value()?;
        Some(format!("{left} {what} of request {command}"))
    }
}

pub(super) fn send(
    context: &mut Context<Message>,
    route: Route,
    bytes: u64,
    message: impl Into<Message>,
) {
    let asks = Asks::At(context.now());
    context.send(TransferSpec { route, bytes, asks, message: message.into() });
}
