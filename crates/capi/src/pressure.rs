//! Running out of memory: reports, and functions of the caller that may make room.

use std::ffi::{CStr, c_char, c_void};

use cubeyard_memory::flex::{OutOfMemory, Shortage};

use crate::Front;
use crate::argument;
use crate::call::{Status, c_string, call};

/// A `cubeyard_out_of_memory`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
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

impl Report {
    /// A report whose words live as long as `words`.
    pub(crate) fn new(report: &OutOfMemory, words: &CStr) -> Self {
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
            text: words.as_ptr(),
        }
    }
}

pub(crate) fn status_of(report: &OutOfMemory) -> Status {
    match report.shortage {
        Shortage::Full => Status::Full,
        Shortage::Fragmented => Status::Fragmented,
        Shortage::TooLarge => Status::TooBig,
    }
}

type Pressure = unsafe extern "C" fn(*mut c_void, *const Report);

/// A function of the caller, and what it is to be given.
struct Callback {
    function: Pressure,
    user: *mut c_void,
}

// SAFETY: the header says that callbacks are called on any thread, with `user` as it was given.
unsafe impl Send for Callback {}
// SAFETY: likewise, and on several threads at a time.
unsafe impl Sync for Callback {}

impl Callback {
    fn run(&self, report: &OutOfMemory) {
        let words = c_string(report.to_string());
        let report = Report::new(report, &words);
        // SAFETY: the caller gave this function for this purpose, with this pointer; the report
        // lives as long as the call.
        unsafe { (self.function)(self.user, &raw const report) }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_on_pressure(
    allocator: *const Front,
    callback: Option<Pressure>,
    user: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let callback = Callback { function: argument::function(callback, "callback")?, user };
        front.allocator.on_pressure(move |report| callback.run(report));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_trim(allocator: *const Front, released: *mut u64) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place_if(released, "released")?;
        front.refuse_reentrance()?;
        let bytes = front.allocator.trim();
        // SAFETY: the header asks for NULL or a place to write to.
        unsafe { argument::write_if(released, "released", bytes.get()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_synchronize(allocator: *const Front) -> Status {
    call(|| {
        // SAFETY: the header asks for an allocator.
        unsafe { Front::of(allocator) }?.allocator.synchronize();
        Ok(())
    })
}
