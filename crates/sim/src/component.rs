//! Components: the parts of a machine at the ends of routes.
//!
//! The fabric moves transfers by itself. The engine calls a component when a transfer is delivered to its node, when
//! one of its alarms goes off, or when a task calls it. The component gives orders to its [`Context`]; the engine
//! executes them after the component has returned.

use crate::id::{NodeId, TransferId};
use crate::task::SignalId;
use crate::transfer::{Delivery, Flit, TransferSpec};
use crate::{Span, Time};

/// A part of a machine that is attached to a node.
///
/// A component owns its state, and is called in the order of events.
pub trait Component {
    /// Content of transfers between components.
    type Message;

    /// Receives a transfer whose last flit has been delivered.
    fn receive(&mut self, delivery: Delivery<Self::Message>, context: &mut Context<Self::Message>);

    /// Returns whether [`flit`](Self::flit) is to be called. The engine asks once.
    fn wants_flits(&self) -> bool {
        false
    }

    /// Receives a flit that was delivered at `flit.at`. The call may come later than that time. Calls come in the order
    /// of delivery, and all before the transfer is [received](Self::receive).
    fn flit(&mut self, flit: Flit, message: &Self::Message) {
        let _ = (flit, message);
    }

    /// Handles an alarm that the component set with `token`.
    fn wake(&mut self, token: u64, context: &mut Context<Self::Message>) {
        let _ = (token, context);
    }

    /// Handles a call by a task, another component, or the code that drives the engine.
    fn call(&mut self, message: Self::Message, context: &mut Context<Self::Message>) {
        let _ = (message, context);
    }

    /// Describes the event that the component still waits for when no event is left, for a deadlock report.
    fn waits_for(&self) -> Option<String> {
        None
    }
}

/// Orders that a component gives to the engine at one instant.
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

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the node of the component.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Begins a transfer after the component has returned.
    pub fn send(&mut self, spec: TransferSpec<M>) -> TransferId {
        let transfer = TransferId(self.begun);
        self.begun += 1;
        self.orders.push(Order::Send(transfer, spec));
        transfer
    }

    /// Sets an alarm: after `span`, the component is [woken](Component::wake) with `token`.
    pub fn wake_after(&mut self, span: Span, token: u64) {
        self.orders.push(Order::Wake(self.node, self.now + span, token));
    }

    /// Calls another component at the same instant, after this one has returned. For components at one location,
    /// without a link between them.
    pub fn call(&mut self, node: NodeId, message: M) {
        self.orders.push(Order::Call(node, message));
    }

    /// Raises a signal; tasks may be waiting for it.
    pub fn raise(&mut self, signal: SignalId) {
        self.orders.push(Order::Raise(signal));
    }
}
