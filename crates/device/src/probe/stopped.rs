//! Errors of runs without a result.

use cubeyard_sim::{Waiter, Waiting};
use thiserror::Error;

use crate::log::Watch;
use crate::machine::Machine;

/// Error of a run without a result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The machine is idle with requests pending. Enlarge or remove the buffers.
    #[error("the machine has come to a stop at {at_ns} ns:\n  {}", waiting.join("\n  "))]
    Stalled {
        /// Time of the last event, in nanoseconds.
        at_ns: String,
        /// Waiting components, one line each: the name, and the event that it waits for.
        waiting: Vec<String>,
    },
    /// The pattern is too large to keep every flit. Explain a smaller part of it.
    #[error("expected at most {most} flit crossings and bursts to record, found {records}")]
    TooManyRecords {
        /// Number of records that the pattern needs.
        records: u64,
        /// Largest number of records that can be kept.
        most: u64,
    },
    /// Simulated time ran out with requests pending. Use less traffic or a faster machine.
    #[error(
        "simulated time has run out: the next event lies more than 2⁶¹ ps (26 days) after the start"
    )]
    OutOfTime,
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl RunError {
    pub(super) fn stalled<W: Watch>(machine: &Machine<W>, waiting: &[Waiting]) -> Self {
        let line = |waiting: &Waiting| {
            let who = match &waiting.who {
                Waiter::Task(name) => name.clone(),
                Waiter::Component(node) => machine.topology().node(*node).name.clone(),
                Waiter::Buffer(link) => {
                    format!("the buffer behind {}", machine.topology().link_name(*link))
                }
            };
            format!("{who} waits for {}", waiting.what)
        };
        let at_ns = machine.now().ns().to_string();
        Self::Stalled { at_ns, waiting: waiting.iter().map(line).collect() }
    }
}
