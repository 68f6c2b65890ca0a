//! Exit codes.

use std::fmt;
use std::process::ExitCode;

use crate::input::MemoryExceeded;

/// Outcome of a command, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The command has finished without errors.
    Done = 0,
    /// A check has failed.
    Failed = 1,
    /// The input is invalid.
    Refused = 2,
    /// Simulated memory or time, or the memory of `--memory`, has run out.
    Exhausted = 3,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Error of work that ran out of simulated memory or time, or exceeded `--memory`; with help.
#[derive(Debug)]
pub(crate) struct Exhausted(pub(crate) String);

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Exhausted {}

/// Returns the exit code of a command that ended with an error.
pub(crate) fn of(error: &anyhow::Error) -> Code {
    let exhausted = error.is::<Exhausted>() || error.is::<MemoryExceeded>();
    if exhausted { Code::Exhausted } else { Code::Refused }
}
