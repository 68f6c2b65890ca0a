//! Part that makes accesses for the host, an `M_CPU` or a PE.

use cubeyard_sim::{Asks, Context, Span, Time, TransferSpec};

use crate::message::{Access, Direction, HostMessage, IoCpuMessage, Message, RequesterMessage};

/// Part that sends accesses and waits for their answers.
#[derive(Clone, Copy, Debug)]
pub struct Requester {
    overhead: Span,
    /// Earliest time at which the next overhead can be processed, if overheads are processed one at a time.
    free: Option<Time>,
    open: u32,
}

impl Requester {
    /// Creates a requester at a node with this overhead, which every access pays before departure.
    pub fn new(overhead: Span) -> Self {
        Self { overhead, free: None, open: 0 }
    }

    /// Creates a requester that processes the overhead of one access at a time.
    pub fn serial(overhead: Span) -> Self {
        Self { free: Some(Time::ZERO), ..Self::new(overhead) }
    }

    /// Handles a message about an access.
    pub fn handle(&mut self, message: RequesterMessage, context: &mut Context<Message>) {
        match message {
            RequesterMessage::Issue(access) => self.access(access, Span::ZERO, context),
            RequesterMessage::Answer(access) => {
                self.answered();
                access.done.tell(true, context);
            }
        }
    }

    pub(super) fn handle_command(&mut self, message: HostMessage, context: &mut Context<Message>) {
        match message {
            HostMessage::Command(command) => {
                self.open += 1;
                let (route, bytes) = (command.to_io_cpu.clone(), command.bytes());
                let message = IoCpuMessage::Command(command).into();
                let asks = self.asks(context);
                context.send(TransferSpec { route, bytes, asks, message });
            }
            HostMessage::Done(command) => {
                self.answered();
                context.raise(command.done);
            }
        }
    }

    /// Returns the departure time of a message made now.
    pub(super) fn asks(&mut self, context: &Context<Message>) -> Asks {
        Asks::At(self.departure(context.now()))
    }

    /// Processes the overhead of a message made now, and returns its end.
    fn departure(&mut self, now: Time) -> Time {
        let departure = self.free.map_or(now, |free| free.max(now)) + self.overhead;
        self.free = self.free.map(|_| departure);
        departure
    }

    /// Sends an access, delayed by `after` in addition to the overhead.
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
        let asks = Asks::At(self.departure(context.now()) + after);
        let route = access.there.clone();
        context.send(TransferSpec { route, bytes, asks, message: Message::Memory(access) });
    }

    pub(super) fn answered(&mut self) {
        self.open -= 1;
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        (self.open > 0).then(|| format!("the answers to {} requests", self.open))
    }
}
