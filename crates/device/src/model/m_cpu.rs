//! The management processor of a cube: fans launches out to PEs, gathers their completions, and has a
//! DMA of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubeyard_sim::{Asks, Component, Context, Delivery, Send, Span};

use super::Requester;
use super::io_cpu::{done, waits};
use crate::message::{Message, RequestId};

/// `M_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug)]
pub struct MCpu {
    /// How many PEs of each launch are not done.
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
        let now = context.now();
        match delivery.message {
            Message::LaunchCube(launch, cube) => {
                let pes = &launch.cubes[cube].pes;
                self.open.insert(launch.request, pes.len());
                for (number, pe) in pes.iter().enumerate() {
                    let message = Message::LaunchPe(Arc::clone(&launch), cube, number);
                    let (route, asks) = (pe.to.clone(), Asks::At(now));
                    context.send(Send { route, bytes: 0, asks, message });
                }
            }
            Message::PeDone(launch, cube) => {
                if done(&mut self.open, launch.request) {
                    let (route, asks) = (launch.cubes[cube].back.clone(), Asks::At(now));
                    let message = Message::CubeDone(launch);
                    context.send(Send { route, bytes: 0, asks, message });
                }
            }
            Message::Answer(_) => self.dma.receive(delivery, context),
            other => unreachable!("M_CPU is sent launches and answers: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        waits(&self.open, "PEs").or_else(|| self.dma.waits_for())
    }
}
