//! How a call ends: a status, and the words for it on this thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cubeyard_memory::flex::{
    AllocateError, BuildError, ConfigError, FreeError, LaunchError, OutOfMemory,
};

use crate::argument;
use crate::pressure::{Report, status_of};

/// A `cubeyard_status`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    Argument = 1,
    Config = 2,
    Unsupported = 3,
    Full = 4,
    Fragmented = 5,
    TooBig = 6,
    Stale = 7,
    Foreign = 8,
    NotLive = 9,
    InUse = 10,
    UnknownKey = 11,
    Buffer = 12,
    Io = 13,
    Internal = 14,
    Reentrant = 15,
    Forked = 16,
}

/// The names of the constants in the header, by their values.
const NAMES: [&CStr; 17] = [
    c"CUBEYARD_OK",
    c"CUBEYARD_ERROR_ARGUMENT",
    c"CUBEYARD_ERROR_CONFIG",
    c"CUBEYARD_ERROR_UNSUPPORTED",
    c"CUBEYARD_ERROR_FULL",
    c"CUBEYARD_ERROR_FRAGMENTED",
    c"CUBEYARD_ERROR_TOO_BIG",
    c"CUBEYARD_ERROR_STALE",
    c"CUBEYARD_ERROR_FOREIGN",
    c"CUBEYARD_ERROR_NOT_LIVE",
    c"CUBEYARD_ERROR_IN_USE",
    c"CUBEYARD_ERROR_UNKNOWN_KEY",
    c"CUBEYARD_ERROR_BUFFER",
    c"CUBEYARD_ERROR_IO",
    c"CUBEYARD_ERROR_INTERNAL",
    c"CUBEYARD_ERROR_REENTRANT",
    c"CUBEYARD_ERROR_FORKED",
];

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
    report: Option<Box<OutOfMemory>>,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), report: None }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(Status::Config, error.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::new(Status::Unsupported, error.to_string())
    }
}

impl From<AllocateError> for Failure {
    fn from(error: AllocateError) -> Self {
        let message = error.to_string();
        match error {
            AllocateError::ZeroBytes | AllocateError::BadAlignment(_) => {
                Self::new(Status::Argument, message)
            }
            AllocateError::Reentrant => Self::new(Status::Reentrant, message),
            AllocateError::OutOfMemory(report) => {
                Self { status: status_of(&report), message, report: Some(report) }
            }
        }
    }
}

impl From<FreeError> for Failure {
    fn from(error: FreeError) -> Self {
        match error {
            FreeError::UnknownRegion { .. } => Self::new(Status::Foreign, error.to_string()),
            FreeError::Foreign => {
                Self::new(Status::Foreign, "the block belongs to another allocator")
            }
            FreeError::NotLive { .. } => Self::new(Status::NotLive, error.to_string()),
            // Here a block is owned only while it is being freed, and by pins after that.
            FreeError::Stale | FreeError::Owned => {
                Self::new(Status::Stale, "the block was freed before")
            }
        }
    }
}

impl From<LaunchError> for Failure {
    fn from(error: LaunchError) -> Self {
        let message = error.to_string();
        match error {
            LaunchError::Corrections(error) => Self { message, ..Self::from(error) },
            LaunchError::BadToken { source, .. } => Self { message, ..Self::from(source) },
            LaunchError::ForeignProgram { .. } | LaunchError::UnknownSegment { .. } => {
                Self::new(Status::Foreign, message)
            }
            LaunchError::OperandCount { .. }
            | LaunchError::BadPart { .. }
            | LaunchError::BadTile { .. } => Self::new(Status::Argument, message),
        }
    }
}

#[derive(Default)]
struct LastError {
    message: CString,
    report: Option<Report>,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

/// Runs the body of a function for C: no panic leaves it, and what went wrong is remembered.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    // A panic is a mistake of ours; the library keeps its data whole whenever something can panic
    // (its `lock` relies on that too), so the caller may go on to free and inspect.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure::new(Status::Internal, format!("internal error: {}", words(panic.as_ref()))))
    });
    outcome.map_or_else(remember, |()| Status::Ok)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

fn remember(failure: Failure) -> Status {
    let Failure { status, message, report } = failure;
    let message = c_string(message);
    let report = report.map(|report| Report::new(&report, &message));
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = LastError { message, report });
    status
}

/// A string for C; it ends where the text has a NUL.
pub(crate) fn c_string(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).expect("it was cut at the first NUL")
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_status_name(status: i32) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|status| NAMES.get(status));
    name.unwrap_or(&c"unknown").as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_last_out_of_memory(report: *mut Report) -> Status {
    call(|| {
        let last = LAST.with_borrow(|last| last.report);
        let none = || Failure::new(Status::UnknownKey, "the last error was not out of memory");
        // SAFETY: the header asks for a place to write to.
        unsafe { argument::write(report, "report", last.ok_or_else(none)?) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_words() {
        assert_eq!(call(|| panic!("{} went wrong", "this")), Status::Internal);
        // SAFETY: the text lives until the next failure on this thread.
        let message = unsafe { CStr::from_ptr(cubeyard_last_error()) };
        assert_eq!(message, c"internal error: this went wrong");
    }

    #[test]
    fn every_status_has_its_name() {
        assert_eq!(NAMES[Status::Internal as usize], c"CUBEYARD_ERROR_INTERNAL");
        assert_eq!(NAMES[Status::Forked as usize], c"CUBEYARD_ERROR_FORKED");
        assert_eq!(NAMES[Status::Stale as usize], c"CUBEYARD_ERROR_STALE");
    }

    #[test]
    fn a_text_for_c_ends_at_its_first_nul() {
        assert_eq!(c_string("a\0b".to_owned()).as_c_str(), c"a");
    }
}
