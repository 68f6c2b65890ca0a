//! The error path of a kernel.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::{KernelState, Place, Tl};
use crate::numeric::NumericError;

/// Panic payload that unwinds a failed kernel: the text of the error.
struct Abort(String);

impl Tl {
    /// Ends the kernel with an error that names the calling line.
    #[track_caller]
    pub(crate) fn fail(&self, what: impl Display) -> ! {
        let text = self.note_failure(&what);
        resume_unwind(Box::new(Abort(text)) as Box<dyn Any + Send>)
    }

    /// Records that the kernel has failed at the calling line, and returns the text of the error. The kernel may
    /// continue, but its run ends with the first of its errors.
    #[track_caller]
    pub fn note_failure(&self, what: &dyn Display) -> String {
        let text = self.state.problem(self.state.tape.borrow().place_of(self.here()), what);
        self.state.error.borrow_mut().get_or_insert_with(|| text.clone());
        text
    }

    /// Returns the error with which the run will end, if the kernel has failed.
    pub fn failure(&self) -> Option<String> {
        self.state.error.borrow().clone()
    }

    /// Calls functions of `tl` for a kernel written in another language, and returns the error if one of them ends the
    /// kernel. In that case the kernel has failed, whatever it does next.
    pub fn attempt<T>(&self, act: impl FnOnce() -> T) -> Result<T, String> {
        catch_unwind(AssertUnwindSafe(act)).map_err(|payload| match payload.downcast::<Abort>() {
            Ok(abort) => abort.0,
            Err(panic) => resume_unwind(panic),
        })
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
    pub(super) fn problem(&self, at: Place<'_>, what: &dyn Display) -> String {
        format!("{} on {}, {}: {what}", self.kernel, self.site.pe, at)
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
