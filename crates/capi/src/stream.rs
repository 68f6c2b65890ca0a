//! Streams implemented by functions of the caller.

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

// SAFETY: according to the header, callbacks may be called on any thread, with the given `user`.
unsafe impl Send for Events {}
// SAFETY: likewise, also on several threads at the same time.
unsafe impl Sync for Events {}

impl Events {
    /// # Safety
    /// If the pointer is neither null nor unaligned, `events` points to a struct at least as long as its first field
    /// states.
    pub(crate) unsafe fn new(events: *const CEvents) -> Result<Self, Failure> {
        // SAFETY: the first field is present.
        let size = *unsafe { argument::read(events.cast::<usize>(), "events") }?;
        argument::struct_size(size, size_of::<CEvents>(), "events")?;
        // SAFETY: the whole struct is present.
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
        // SAFETY: the caller passed this function for this purpose, with this pointer.
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
