//! Running out of memory: callbacks that may free memory, and trims.

use std::ffi::c_void;

use cubeyard_memory::flex::OutOfMemory;

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{CReport, Status, c_string};

type Pressure = unsafe extern "C" fn(*mut c_void, *const CReport);

/// A callback function of the caller, with its first argument.
struct PressureCallback {
    function: Pressure,
    user: *mut c_void,
}

// SAFETY: according to the header, callbacks may be called on any thread, with the given `user`.
unsafe impl Send for PressureCallback {}
// SAFETY: likewise, also on several threads at the same time.
unsafe impl Sync for PressureCallback {}

impl PressureCallback {
    fn run(&self, report: &OutOfMemory) {
        let words = c_string(report.to_string());
        let report = CReport::new(report, &words);
        // SAFETY: the caller passed this function for this purpose, with this pointer; the report lives as long as the
        // call.
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
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let callback =
            PressureCallback { function: argument::function(callback, "callback")?, user };
        front.allocator.on_pressure(move |report| callback.run(report));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_unlock_regions(allocator: *const Front) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        unsafe { Front::of(allocator) }?.allocator.unlock_regions();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_trim(allocator: *const Front, released: *mut u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place_if(released, "released")?;
        front.refuse_reentrance()?;
        let bytes = front.allocator.trim();
        // SAFETY: the header requires NULL or a writable pointer.
        unsafe { argument::write_if(released, "released", bytes.get()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_synchronize(allocator: *const Front) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        unsafe { Front::of(allocator) }?.allocator.synchronize();
        Ok(())
    })
}
