//! Figures: statistics and the device's memory.

use std::ffi::c_char;

use cubeyard_memory::stats::Stats;

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{Failure, Status};

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_stat(
    allocator: *const Front,
    key: *const c_char,
    value: *mut i64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator, a string and a writable pointer.
        unsafe { write_stat(&Front::of(allocator)?.allocator.stats(), key, value) }
    })
}

/// Writes one statistic.
///
/// # Safety
/// Pointers that are neither null nor unaligned point to a string and to writable memory.
pub(crate) unsafe fn write_stat(
    stats: &Stats,
    key: *const c_char,
    value: *mut i64,
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees the same.
    let key = unsafe { argument::text(key, "key") }?;
    let unknown = || Failure::new(Status::UnknownKey, format!("there is no statistic `{key}`"));
    // SAFETY: the caller guarantees the same.
    unsafe { argument::write(value, "value", stats.key(key).ok_or_else(unknown)?) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_stats_json(
    allocator: *const Front,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        if capacity > 0 {
            argument::place(buffer, "buffer")?;
        }
        let json = front.allocator.stats().to_json();
        let needed = json.len() + 1;
        // SAFETY: the header requires NULL or a writable pointer.
        unsafe { argument::write_if(length, "length", needed) }?;
        if needed > capacity {
            let message = format!("{needed} bytes are needed, but the buffer has {capacity}");
            return Err(Failure::new(Status::Buffer, message));
        }
        // SAFETY: the header requires a buffer of `capacity` bytes, which is enough.
        unsafe {
            buffer.copy_from_nonoverlapping(json.as_ptr().cast(), json.len());
            buffer.add(json.len()).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_reset_peak_stats(allocator: *const Front) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        unsafe { Front::of(allocator) }?.allocator.reset_peak_stats();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_reset_accumulated_stats(allocator: *const Front) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        unsafe { Front::of(allocator) }?.allocator.reset_accumulated_stats();
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_memory_info(
    allocator: *const Front,
    free_bytes: *mut u64,
    total_bytes: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(free_bytes, "free_bytes")?;
        argument::place(total_bytes, "total_bytes")?;
        let info = front.allocator.device().info();
        // SAFETY: the header requires writable pointers.
        unsafe {
            argument::write(free_bytes, "free_bytes", info.free.get())?;
            argument::write(total_bytes, "total_bytes", info.total.get())
        }
    })
}
