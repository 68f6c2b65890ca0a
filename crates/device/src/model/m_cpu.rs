//! The management processor of a cube: hands commands to PEs, gathers their completions, and has a DMA
//! of its own.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Component, Context, Delivery, Span};

use super::Requester;
use super::io_cpu::{done, send, waits};
use crate::message::{Message, RequestId};

/// `M_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug)]
pub struct MCpu {
    /// How many PEs of each command are not done.
    open: BTreeMap<RequestId, usize>,
    dma: Requester,
}

impl MCpu {
    /// A processor at a node with this overhead.
    pub fn new(overhead: Span) -> Self {
        Self { open: BTreeMap::new(), dma: Requester::new(overhead) }
    }
}

impl Component for MCpu {
    type Message = Message;

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        self.dma.call(message, context);
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        match delivery.message {
            Message::CommandCube(command, cube) => {
                let pes = &command.cubes[cube].pes;
                self.open.insert(command.request, pes.len());
                for (number, pe) in pes.iter().enumerate() {
                    let message = Message::CommandPe(Rc::clone(&command), cube, number);
                    send(context, pe.to.clone(), command.bytes(), message);
                }
            }
            Message::PeDone(command, cube) => {
                if done(&mut self.open, command.request) {
                    let route = command.cubes[cube].back.clone();
                    send(context, route, 0, Message::CubeDone(command));
                }
            }
            Message::Answer(_) => self.dma.receive(delivery, context),
            other => unreachable!("M_CPU is sent commands and answers: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        waits(&self.open, "PEs").or_else(|| self.dma.waits_for())
    }
}
