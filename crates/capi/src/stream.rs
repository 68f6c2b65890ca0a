//! Streams as functions of the caller.

use std::ffi::{c_int, c_void};

use cubeyard_memory::flex::{EventId, StreamEvents};

use crate::argument;
use crate::status::Failure;

/// The struct `cubeyard_events` of the header.
#[repr(C)]
pub(crate) struct CEvents {
    struct_size: usize,
    user: *mut c_void,
    record: Option<unsafe extern "C" fn(*mut c_void, u32) -> u64>,
    is_complete: Option<unsafe extern "C" fn(*mut c_void, u64) -> c_int>,
    wait: Option<unsafe extern "C" fn(*mut c_void, u64)>,
}

/// Streams of the caller, with all functions present.
pub(crate) struct Events {
    user: *mut c_void,
    record: unsafe extern "C" fn(*mut c_void, u32) -> u64,
    is_complete: unsafe extern "C" fn(*mut c_void, u64) -> c_int,
    wait: unsafe extern "C" fn(*mut c_void, u64),
}

// SAFETY: the header says that callbacks are called on any thread, with `user` as it was given.
unsafe impl Send for Events {}
// SAFETY: likewise, and on several threads at a time.
unsafe impl Sync for Events {}

impl Events {
    /// # Safety
    /// If it is not null and is aligned, `events` points to a struct of at least the length that
    /// its first field gives.
    pub(crate) unsafe fn new(events: *const CEvents) -> Result<Self, Failure> {
        // SAFETY: the first field is there.
        let size = *unsafe { argument::read(events.cast::<usize>(), "events") }?;
        argument::struct_size(size, size_of::<CEvents>(), "events")?;
        // SAFETY: all of it is there.
        let events = unsafe { argument::read(events, "events") }?;
        Ok(Self {
            user: events.user,
            record: argument::function(events.record, "events.record")?,
            is_complete: argument::function(events.is_complete, "events.is_complete")?,
            wait: argument::function(events.wait, "events.wait")?,
        })
    }
}

impl StreamEvents for Events {
    fn record(&self, stream: u32) -> EventId {
        // SAFETY: the caller gave this function for this purpose, with this pointer.
        EventId(unsafe { (self.record)(self.user, stream) })
    }

    fn is_complete(&self, event: EventId) -> bool {
        // SAFETY: as above.
        unsafe { (self.is_complete)(self.user, event.0) != 0 }
    }

    fn wait(&self, event: EventId) {
        // SAFETY: as above.
        unsafe { (self.wait)(self.user, event.0) }
    }
}
