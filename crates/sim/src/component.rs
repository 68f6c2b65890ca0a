//! What happens at the ends of routes.
//!
//! The fabric moves transfers by itself; a component is asked when one is delivered to its node, when it
//! has set itself an alarm, or when a task calls it. It answers by orders to its [`Context`], which the engine
//! carries out when the component has returned.

use crate::id::{NodeId, TransferId};
use crate::task::SignalId;
use crate::transfer::{Delivery, Flit, TransferSpec};
use crate::{Span, Time};

/// A part of a machine that sits at a node.
///
/// A component owns its state and is told the time. It must not remember a [`Context`], and the
/// engine calls it in the one order that the queue gives.
pub trait Component {
    /// What transfers between components carry.
    type Message;

    /// A transfer has been delivered to the last flit.
    fn receive(&mut self, delivery: Delivery<Self::Message>, context: &mut Context<Self::Message>);

    /// Whether [`flit`](Self::flit) is to be called. Asked once.
    fn wants_flits(&self) -> bool {
        false
    }

    /// A flit has been delivered, at `flit.at`; calls may come later than that, but always in the order of
    /// delivery, and all before the transfer is [received](Self::receive).
    fn flit(&mut self, flit: Flit, message: &Self::Message) {
        let _ = (flit, message);
    }

    /// An alarm that the component set has come.
    fn wake(&mut self, token: u64, context: &mut Context<Self::Message>) {
        let _ = (token, context);
    }

    /// A task, or who drives the engine, wants something.
    fn call(&mut self, message: Self::Message, context: &mut Context<Self::Message>) {
        let _ = (message, context);
    }

    /// What it still waits for when nothing is left to happen: a line for the report of a deadlock.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

impl<M> Component for Box<dyn Component<Message = M>> {
    type Message = M;

    fn receive(&mut self, delivery: Delivery<M>, context: &mut Context<M>) {
        (**self).receive(delivery, context);
    }

    fn wants_flits(&self) -> bool {
        (**self).wants_flits()
    }

    fn flit(&mut self, flit: Flit, message: &M) {
        (**self).flit(flit, message);
    }

    fn wake(&mut self, token: u64, context: &mut Context<M>) {
        (**self).wake(token, context);
    }

    fn call(&mut self, message: M, context: &mut Context<M>) {
        (**self).call(message, context);
    }

    fn waits_for(&self) -> Option<String> {
        (**self).waits_for()
    }
}

/// What a component may do, at one instant.
#[derive(Debug)]
pub struct Context<M> {
    pub(crate) now: Time,
    pub(crate) node: NodeId,
    pub(crate) begun: u64,
    pub(crate) orders: Vec<Order<M>>,
}

#[derive(Debug)]
pub(crate) enum Order<M> {
    Send(TransferId, TransferSpec<M>),
    Wake(NodeId, Time, u64),
    Raise(SignalId),
    Call(NodeId, M),
}

impl<M> Context<M> {
    pub(crate) fn new() -> Self {
        Self { now: Time::ZERO, node: NodeId::new(0), begun: 0, orders: Vec::new() }
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Where the component sits.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Begins a transfer.
    pub fn send(&mut self, spec: TransferSpec<M>) -> TransferId {
        let transfer = TransferId(self.begun);
        self.begun += 1;
        self.orders.push(Order::Send(transfer, spec));
        transfer
    }

    /// Sets an alarm.
    pub fn wake_after(&mut self, span: Span, token: u64) {
        self.orders.push(Order::Wake(self.node, self.now + span, token));
    }

    /// Calls another component, in this instant, when this one has returned: for parts that share a place,
    /// with no wire between them.
    pub fn call(&mut self, node: NodeId, message: M) {
        self.orders.push(Order::Call(node, message));
    }

    /// Raises a signal, which tasks may wait for.
    pub fn raise(&mut self, signal: SignalId) {
        self.orders.push(Order::Raise(signal));
    }
}
