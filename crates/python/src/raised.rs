//! Exceptions of kernels, kept while the error passes through the simulation to the caller.

use std::cell::RefCell;

use pyo3::prelude::*;

/// Error text of a kernel, with the exception that ended it, unless the kernel caught the exception.
pub(crate) type Raised = (String, Option<PyErr>);

thread_local! {
    /// Error of the Python kernel that failed most recently on this thread.
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
}

/// Keeps the error of a kernel until it reaches the caller.
pub(crate) fn keep(text: String, exception: Option<PyErr>) {
    RAISED.replace(Some((text, exception)));
}

/// Takes the error of a kernel, if the text of another error ends with it.
pub(crate) fn take(text: &str) -> Option<Raised> {
    RAISED.with_borrow_mut(|raised| raised.take_if(|(of, _)| text.ends_with(&**of)))
}
