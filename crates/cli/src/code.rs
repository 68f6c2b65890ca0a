//! Exit codes.

use std::process::ExitCode;

/// Outcome of a command, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The command has done what was asked.
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
