//! Running the body of a C function, and the last error of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::argument;
use crate::status::{CReport, Failure, Status, c_string};

#[derive(Default)]
struct LastError {
    message: CString,
    report: Option<CReport>,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

/// Runs the body of a C function: no panic crosses the boundary, and a failure is stored as the last error.
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    // A panic is a bug of ours. The library keeps its data consistent whenever it can panic (its `lock` relies on that
    // as well), so the caller may continue to free and inspect.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure::new(
            Status::Internal,
            format!("internal error: {}", message_of(panic.as_ref())),
        ))
    });
    outcome.map_or_else(remember, |()| Status::Ok)
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

fn remember(failure: Failure) -> Status {
    let Failure { status, message, report } = failure;
    let message = c_string(message);
    let report = report.map(|report| CReport::new(&report, &message));
    // Fails only while the thread exits.
    let _ = LAST.try_with(|last| *last.borrow_mut() = LastError { message, report });
    status
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_last_out_of_memory(report: *mut CReport) -> Status {
    call(|| {
        let last = LAST.with_borrow(|last| last.report);
        let none = || Failure::new(Status::UnknownKey, "the last error was not out of memory");
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(report, "report", last.ok_or_else(none)?) }
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_words() {
        assert_eq!(call(|| panic!("{} went wrong", "this")), Status::Internal);
        // SAFETY: the text stays valid until the next failure on this thread.
        let message = unsafe { CStr::from_ptr(cubeyard_last_error()) };
        assert_eq!(message, c"internal error: this went wrong");
    }
}
