//! Reasons for which an engine stops.

use std::fmt;

use crate::id::{LinkId, NodeId};

/// Why an engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing is left to happen, and nobody waits.
    Idle,
    /// The deadline has come; more is to happen after it.
    Deadline,
    /// Nothing is left to happen, and somebody waits.
    Deadlock(Vec<Waiting>),
    /// Simulated time is over: what is to happen next lies beyond [`Time::HORIZON`].
    OutOfTime,
}

/// Somebody who waits for what will not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// A task's name, or the number of a component's node.
    pub who: Waiter,
    /// What for, in words.
    pub what: String,
    /// The task that said it would raise the signal, if one did.
    pub owner: Option<String>,
}

/// Who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A task, by name.
    Task(String),
    /// The component at a node.
    Component(NodeId),
    /// The flits in the buffer of a link, at the node that it leads to.
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
