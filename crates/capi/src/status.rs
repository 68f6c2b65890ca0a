//! Status codes, and the corresponding failures of the library.

use std::ffi::{CStr, CString, c_char};
use std::fmt;

use cubeyard_memory::flex::{
    AllocateError, BuildError, ConfigError, FreeError, LaunchError, OutOfMemory, ResizeError,
    Shortage, TagError,
};

/// The enum `cubeyard_status` of the header.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// An argument is invalid.
    Argument = 1,
    /// A configuration is invalid.
    Config = 2,
    /// The device does not support the operation.
    Unsupported = 3,
    /// The request exceeds the free memory.
    Full = 4,
    /// Enough memory is free, but not contiguously.
    Fragmented = 5,
    /// No region can hold the request.
    TooBig = 6,
    /// The block was freed before.
    Stale = 7,
    /// The address or block belongs to another allocator.
    Foreign = 8,
    /// No live block starts at the address.
    NotLive = 9,
    /// The object is still in use, or already registered.
    InUse = 10,
    /// The statistic or device does not exist.
    UnknownKey = 11,
    /// The buffer is too short.
    Buffer = 12,
    /// A file operation or the caller's write function failed.
    Io = 13,
    /// A bug in the library.
    Internal = 14,
    /// The call comes from a function that the allocator is calling.
    Reentrant = 15,
    /// The object was created by the parent process, before a fork.
    Forked = 16,
    /// The device has returned a region twice.
    Device = 17,
    /// The hard budget of the request's tag refuses it.
    Budget = 18,
    /// The range behind a block that is to grow is taken.
    NoRoom = 19,
    /// The block is paused: it has no memory.
    Paused = 20,
}

/// Names of the constants in the header, by their values.
const NAMES: [&CStr; 21] = [
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
    c"CUBEYARD_ERROR_DEVICE",
    c"CUBEYARD_ERROR_BUDGET",
    c"CUBEYARD_ERROR_NO_ROOM",
    c"CUBEYARD_ERROR_PAUSED",
];

/// A failed call.
#[derive(Debug)]
pub struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
    pub(crate) report: Option<Box<OutOfMemory>>,
}

impl Failure {
    /// Creates a failure with a message.
    pub fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), report: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
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
            AllocateError::RepeatedRegion { .. } => Self::new(Status::Device, message),
            AllocateError::UnknownPool(_) => Self::new(Status::Stale, message),
            AllocateError::UnknownTag(_) => Self::new(Status::UnknownKey, message),
            AllocateError::Budget(_) => Self::new(Status::Budget, message),
            AllocateError::OutOfMemory(report) => {
                Self { status: status_of(&report), message, report: Some(report) }
            }
            _ => Self::new(Status::Internal, message),
        }
    }
}

impl From<ResizeError> for Failure {
    fn from(error: ResizeError) -> Self {
        let status = match error {
            ResizeError::ZeroBytes => Status::Argument,
            ResizeError::NoRoom { .. } => Status::NoRoom,
            ResizeError::NoMemory { .. } => Status::Full,
            ResizeError::Pinned { .. } | ResizeError::Changed => Status::InUse,
            ResizeError::Paused { .. } => Status::Paused,
            ResizeError::Budget { .. } => Status::Budget,
            ResizeError::Reentrant => Status::Reentrant,
            ResizeError::Token(error) => return error.into(),
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

impl From<TagError> for Failure {
    fn from(error: TagError) -> Self {
        let status = match error {
            TagError::Unknown(_) => Status::UnknownKey,
            _ => Status::Full,
        };
        Self::new(status, error.to_string())
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
            // Here a block is owned only while it is being freed, and by pins afterwards.
            FreeError::Stale | FreeError::Owned => {
                Self::new(Status::Stale, "the block was freed before")
            }
            _ => Self::new(Status::Internal, error.to_string()),
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
            LaunchError::PausedProgram { .. } | LaunchError::PausedOperand { .. } => {
                Self::new(Status::Paused, message)
            }
            LaunchError::OperandCount { .. }
            | LaunchError::BadPart { .. }
            | LaunchError::BadTile { .. } => Self::new(Status::Argument, message),
            _ => Self::new(Status::Internal, message),
        }
    }
}

/// The struct `cubeyard_out_of_memory` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct CReport {
    status: Status,
    regions: u32,
    requested: u64,
    rounded: u64,
    free_bytes: u64,
    largest: u64,
    longest_block: u64,
    pending: u64,
    device_free: u64,
    device_total: u64,
    text: *const c_char,
}

impl CReport {
    /// Creates a report that points to `text`.
    pub(crate) fn new(report: &OutOfMemory, text: &CStr) -> Self {
        Self {
            status: status_of(report),
            regions: u32::try_from(report.regions.len()).unwrap_or(u32::MAX),
            requested: report.requested.get(),
            rounded: report.rounded.get(),
            free_bytes: report.free.get(),
            largest: report.largest.get(),
            longest_block: report.longest_block.get(),
            pending: report.pending.get(),
            device_free: report.device_free.get(),
            device_total: report.device_total.get(),
            text: text.as_ptr(),
        }
    }
}

fn status_of(report: &OutOfMemory) -> Status {
    match report.shortage {
        Shortage::Full => Status::Full,
        Shortage::Fragmented => Status::Fragmented,
        Shortage::TooLarge => Status::TooBig,
    }
}

/// Returns a C string, which ends at the first NUL of the text.
pub(crate) fn c_string(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).expect("it was cut at the first NUL")
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_status_name(status: i32) -> *const c_char {
    let name = usize::try_from(status).ok().and_then(|status| NAMES.get(status));
    name.unwrap_or(&c"unknown").as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_name() {
        assert_eq!(NAMES[Status::Internal as usize], c"CUBEYARD_ERROR_INTERNAL");
        assert_eq!(NAMES[Status::Forked as usize], c"CUBEYARD_ERROR_FORKED");
        assert_eq!(NAMES[Status::Device as usize], c"CUBEYARD_ERROR_DEVICE");
        assert_eq!(NAMES[Status::Stale as usize], c"CUBEYARD_ERROR_STALE");
    }

    #[test]
    fn a_text_for_c_ends_at_its_first_nul() {
        assert_eq!(c_string("a\0b".to_owned()).as_c_str(), c"a");
    }
}
