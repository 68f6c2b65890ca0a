//! Exceptions of kernels, on their way from the kernel through the simulation to the caller.

use std::cell::RefCell;

use pyo3::prelude::*;

/// The error of a kernel, with the exception that ended it, if it did not catch that.
pub(crate) type Raised = (String, Option<PyErr>);

thread_local! {
    /// The error of the kernel of Python that failed last on this thread.
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
}

/// Keeps the error of a kernel until it arrives at the caller.
pub(crate) fn keep(text: String, exception: Option<PyErr>) {
    RAISED.replace(Some((text, exception)));
}

/// Takes the error of a kernel with which the text of another error ends.
pub(crate) fn take(text: &str) -> Option<Raised> {
    RAISED.with_borrow_mut(|raised| raised.take_if(|(of, _)| text.ends_with(&**of)))
}
