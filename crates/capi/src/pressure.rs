//! Running out of memory: callbacks that may free memory, and trims.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::OutOfMemory;

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{CReport, Failure, Status, c_string};

type Pressure = unsafe extern "C" fn(*mut c_void, *const CReport);

/// Address of a callback function, and its first argument.
pub(crate) type PressureKey = (usize, usize);

/// A callback function of the caller, with its first argument.
struct Callback {
    function: Pressure,
    user: *mut c_void,
}

// SAFETY: according to the header, callbacks may be called on any thread, with the given `user`.
unsafe impl Send for Callback {}
// SAFETY: likewise, also on several threads at the same time.
unsafe impl Sync for Callback {}

impl Callback {
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
        let callback = Callback { function: argument::function(callback, "callback")?, user };
        let key = key_of(callback.function, user);
        let registered = front.allocator.on_pressure(move |report| callback.run(report));
        lock(&front.pressure).push((key, registered));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_remove_pressure(
    allocator: *const Front,
    callback: Option<Pressure>,
    user: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let key = key_of(argument::function(callback, "callback")?, user);
        let mut listed = lock(&front.pressure);
        let found = listed.iter().position(|(listed, _)| *listed == key);
        let registered = found.map(|place| listed.remove(place).1);
        // Removing waits for callbacks on other threads, which may register others.
        drop(listed);
        let unknown =
            "this allocator has no such pressure callback: it was removed before, or is another's";
        registered.ok_or_else(|| Failure::new(Status::Stale, unknown))?.remove();
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

fn key_of(function: Pressure, user: *mut c_void) -> PressureKey {
    (function as usize, user as usize)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
