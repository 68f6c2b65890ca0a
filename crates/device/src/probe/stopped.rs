//! Runs that came to no end.

use cubeyard_sim::{Waiter, Waiting};
use thiserror::Error;

use crate::log::Watch;
use crate::machine::Machine;

/// A run of which no result can be given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Nothing is left to happen, and requests are not done. Larger buffers, or none, help.
    #[error("the machine has come to a stop at {at_ns} ns:\n  {}", waiting.join("\n  "))]
    Stalled {
        /// The time of the last event, in nanoseconds.
        at_ns: String,
        /// Who waits for what, in words.
        waiting: Vec<String>,
    },
    /// The pattern is too large for every flit to be kept. Explain less of it at once.
    #[error("{records} flits on links and bursts are to be kept, and at most {most} can be")]
    TooManyRecords {
        /// How many there would be.
        records: u64,
        /// How many there may be.
        most: u64,
    },
    /// Simulated time is over, and requests are not done. Less traffic, or a faster machine, helps.
    #[error(
        "simulated time has run out: the next event lies more than 2⁶¹ ps (26 days) after the start"
    )]
    OutOfTime,
}

impl RunError {
    pub(super) fn stalled<W: Watch>(machine: &Machine<W>, waiting: &[Waiting]) -> Self {
        let line = |waiting: &Waiting| {
            let who = match &waiting.who {
                Waiter::Task(name) => name.clone(),
                Waiter::Component(node) => machine.topology().node(*node).name.clone(),
                Waiter::Buffer(link) => format!("the buffer behind {}", machine.link_name(*link)),
            };
            format!("{who} waits for {}", waiting.what)
        };
        let at_ns = machine.now().ns().to_string();
        Self::Stalled { at_ns, waiting: waiting.iter().map(line).collect() }
    }
}
