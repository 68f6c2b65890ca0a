//! The error path of a kernel.

use std::any::Any;
use std::fmt::Display;
use std::panic::Location;

use super::{KernelState, Place, Tl, place};
use crate::numeric::NumericError;

/// Panic payload that unwinds a failed kernel.
struct Abort;

impl Tl {
    /// Ends the kernel with an error that names the calling line.
    #[track_caller]
    pub(crate) fn fail(&self, what: impl Display) -> ! {
        let text = self.state.problem(Location::caller(), &what);
        self.state.error.borrow_mut().get_or_insert(text);
        std::panic::resume_unwind(Box::new(Abort) as Box<dyn Any + Send>)
    }

    #[track_caller]
    pub(crate) fn checked<T>(&self, result: Result<T, impl Into<Problem>>) -> T {
        match result {
            Ok(value) => value,
            Err(problem) => self.fail(problem.into().0),
        }
    }
}

impl KernelState {
    /// Formats an error with the kernel, the PE and the line.
    pub(super) fn problem(&self, at: Place, what: &dyn Display) -> String {
        format!("{} on {}, {}: {what}", self.kernel, self.site.pe, place(at))
    }
}

/// The text of an error.
pub(crate) struct Problem(String);

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<NumericError> for Problem {
    fn from(error: NumericError) -> Self {
        Self(error.to_string())
    }
}
