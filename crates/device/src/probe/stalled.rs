//! Machines that have come to a stop.

use cubeyard_sim::{Waiter, Waiting};
use thiserror::Error;

use crate::log::Watch;
use crate::machine::Machine;

/// Nothing is left to happen, and requests are not done. Larger buffers, or none, help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the machine has come to a stop at {at_ns} ns:\n  {}", waiting.join("\n  "))]
pub struct Stalled {
    /// When, in nanoseconds.
    pub at_ns: String,
    /// Who waits for what, in words.
    pub waiting: Vec<String>,
}

impl Stalled {
    pub(super) fn new<W: Watch>(machine: &Machine<W>, waiting: &[Waiting]) -> Self {
        let line = |waiting: &Waiting| {
            let who = match &waiting.who {
                Waiter::Task(name) => name.clone(),
                Waiter::Component(node) => machine.topology().node(*node).name.clone(),
                Waiter::Buffer(link) => format!("the buffer behind {}", machine.link_name(*link)),
            };
            format!("{who} waits for {}", waiting.what)
        };
        let at_ns = machine.now().ns().to_string();
        Self { at_ns, waiting: waiting.iter().map(line).collect() }
    }
}
