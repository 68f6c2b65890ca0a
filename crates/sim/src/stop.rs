//! Reasons why an engine stops.

use std::fmt;

use crate::id::{LinkId, NodeId};

/// Reason why an engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No event is left, and nothing waits.
    Idle,
    /// The deadline was reached; later events are pending.
    Deadline,
    /// No event is left, but tasks, components or flits wait.
    Deadlock(Vec<Waiting>),
    /// The end of simulated time was reached: the next event lies beyond [`Time::HORIZON`](crate::Time::HORIZON).
    OutOfTime,
    /// The user interrupted the run (see [`interruptible`](crate::interruptible)); events are pending.
    Interrupted,
}

/// One line of a deadlock report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Task, component or buffer that waits.
    pub who: Waiter,
    /// Description of the awaited event.
    pub what: String,
    /// Name of the owner that should raise the signal, if known.
    pub owner: Option<String>,
}

/// Task, component or buffer that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A task, by name.
    Task(String),
    /// The component at a node.
    Component(NodeId),
    /// Flits in the buffer of a link.
    Buffer(LinkId),
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Waiter::Task(name) => write!(f, "{name} waits for {}", self.what)?,
            Waiter::Component(node) => write!(f, "node {node} waits for {}", self.what)?,
            Waiter::Buffer(link) => write!(f, "the buffer of link {link} waits for {}", self.what)?,
        }
        self.owner.as_ref().map_or(Ok(()), |owner| write!(f, " from {owner}"))
    }
}
