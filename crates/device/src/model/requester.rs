//! Who makes requests of memories: a PE's DMA, or the host behind a PCIe endpoint.

use cubeyard_sim::{Asks, Component, Context, Delivery, Send, Span};

use crate::message::{Access, Direction, Message};

/// A part that sends accesses out and waits for their answers.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    overhead: Span,
    open: u32,
}

impl Requester {
    /// A requester at a node with this overhead, which every request pays before it leaves.
    pub fn new(overhead: Span) -> Self {
        Self { overhead, open: 0 }
    }
}

impl Component for Requester {
    type Message = Message;

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        let Message::Issue(access) = message else {
            unreachable!("a requester is told to make requests")
        };
        let bytes = match access.direction {
            Direction::Read => 0,
            Direction::Write => access.bytes,
        };
        self.open += u32::from(access.back.is_some());
        let asks = Asks::At(context.now() + self.overhead);
        let route = access.there.clone();
        context.send(Send { route, bytes, asks, message: Message::Access(access) });
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let Message::Answer(Access { done, .. }) = delivery.message else {
            unreachable!("a requester is sent answers")
        };
        self.open -= 1;
        context.raise(done);
    }

    fn waits_for(&self) -> Option<String> {
        (self.open > 0).then(|| format!("the answers to {} requests", self.open))
    }
}
