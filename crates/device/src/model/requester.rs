//! Who makes requests: a PE's DMA, or the host behind a PCIe endpoint.

use cubeyard_sim::{Asks, Component, Context, Delivery, Send, Span};

use crate::message::{Access, Direction, Message};

/// A part that sends requests out and waits for their answers.
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

    /// When what is made now leaves.
    pub(super) fn asks(&self, context: &Context<Message>) -> Asks {
        Asks::At(context.now() + self.overhead)
    }

    /// Sends an access out, `after` what it must wait for besides the overhead.
    pub(super) fn access(
        &mut self,
        access: Box<Access>,
        after: Span,
        context: &mut Context<Message>,
    ) {
        let bytes = match access.direction {
            Direction::Read => 0,
            Direction::Write => access.bytes,
        };
        self.open += u32::from(access.back.is_some());
        let asks = Asks::At(context.now() + self.overhead + after);
        let route = access.there.clone();
        context.send(Send { route, bytes, asks, message: Message::Access(access) });
    }

    /// An answer has come.
    pub(super) fn answered(&mut self) {
        self.open -= 1;
    }
}

impl Component for Requester {
    type Message = Message;

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::Issue(access) => self.access(access, Span::ZERO, context),
            Message::Command(command) => {
                self.open += 1;
                let (route, bytes) = (command.to_io_cpu.clone(), command.bytes());
                let asks = Asks::At(context.now() + self.overhead);
                let message = Message::CommandSip(command);
                context.send(Send { route, bytes, asks, message });
            }
            other => unreachable!("a requester is told to make requests: {other:?}"),
        }
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        self.answered();
        match delivery.message {
            Message::Answer(access) => access.done.tell(true, context),
            Message::CommandDone(command) => context.raise(command.done),
            other => unreachable!("a requester is sent answers: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        (self.open > 0).then(|| format!("the answers to {} requests", self.open))
    }
}
