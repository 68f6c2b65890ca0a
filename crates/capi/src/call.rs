//! Running the body of a C function, and the last error of each thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

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

/// Function that runs its argument without the lock of an interpreter, on the same thread.
pub type Detach = fn(&mut dyn FnMut());

static DETACH: OnceLock<Detach> = OnceLock::new();

/// Runs the bodies of all later C functions through `detach`; only the first call has an effect. A front does so when
/// subscribers need the lock of an interpreter: a caller that waits for the delivery of events must not hold that lock.
pub fn detach_calls(detach: Detach) {
    let _ = DETACH.set(detach);
}

/// Runs the body of a C function: no panic crosses the boundary, and a failure is stored as the last error.
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match DETACH.get() {
        Some(detach) => call_detached(*detach, body),
        None => call_here(body),
    }
}

#[cold]
fn call_detached(detach: Detach, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let (mut body, mut status) = (Some(body), Status::Internal);
    detach(&mut || status = body.take().map_or(status, call_here));
    status
}

fn call_here(body: impl FnOnce() -> Result<(), Failure>) -> Status {
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
    fn functions_run_through_detach_once_it_is_set() {
        thread_local! {
            static DETACHED: RefCell<bool> = const { RefCell::new(false) };
        }
        fn detach(act: &mut dyn FnMut()) {
            DETACHED.set(true);
            act();
            DETACHED.set(false);
        }
        let is_detached = || {
            let mut seen = None;
            let body = || {
                seen = Some(DETACHED.with_borrow(|detached| *detached));
                Ok(())
            };
            assert_eq!(call(body), Status::Ok);
            seen
        };
        assert_eq!(is_detached(), Some(false));
        detach_calls(detach);
        assert_eq!(is_detached(), Some(true));
        let failure = || Err(Failure::new(Status::Full, "no room"));
        assert_eq!(call(failure), Status::Full);
    }

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_words() {
        assert_eq!(call(|| panic!("{} went wrong", "this")), Status::Internal);
        // SAFETY: the text stays valid until the next failure on this thread.
        let message = unsafe { CStr::from_ptr(cubeyard_last_error()) };
        assert_eq!(message, c"internal error: this went wrong");
    }
}
