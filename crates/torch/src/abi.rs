//! Functions for the C++ shim; their contract is `include/cubeyard_torch.h`.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use cubeyard_capi::{Failure, Front, Status, call};
use cubeyard_memory::Bytes;
use cubeyard_memory::device::RegionId;

use crate::copies::{self, Place};
use crate::devices;
use crate::operators::{self, Cost};
use crate::streams;

/// Text of the header `cubeyard_torch.h`.
pub const HEADER: &str = include_str!("../include/cubeyard_torch.h");

/// The function that numbers call sites, and whether call sites are recorded.
static SITE: OnceLock<fn() -> u32> = OnceLock::new();
static RECORDS_SITES: AtomicBool = AtomicBool::new(false);

/// Sets the function that returns the number of the allocating call site. Only the first call has an effect.
pub fn set_site(site: fn() -> u32) {
    let _ = SITE.set(site);
}

/// Sets whether the call site of each allocation is recorded.
pub fn record_sites(wanted: bool) {
    RECORDS_SITES.store(wanted, Ordering::Relaxed);
}

/// The function that returns the numbers of this thread's pool and tag on a device; 0 for none.
static LABELS: OnceLock<fn(u32) -> (u32, u32)> = OnceLock::new();

/// Sets the function that returns this thread's pool and tag on a device. Only the first call has an effect.
pub fn set_labels(labels: fn(u32) -> (u32, u32)) {
    let _ = LABELS.set(labels);
}

/// The struct `cubeyard_torch_space` of the header.
#[repr(C)]
struct CSpace {
    base: u64,
    span: u64,
    distance: u64,
    devices: u64,
}

/// The struct `cubeyard_address` of the header.
#[repr(C)]
struct CAddress {
    region_id: u64,
    offset: u64,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_device_count(count: *mut u32) -> Status {
    // SAFETY: the header requires a writable pointer.
    call(|| unsafe { write(count, devices::devices()?.count()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_allocator(device: u32, allocator: *mut *mut Front) -> Status {
    // SAFETY: the header requires a writable pointer.
    call(|| unsafe { write(allocator, devices::device(device)?.front()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_get_space(space: *mut CSpace) -> Status {
    call(|| {
        let found = devices::devices()?.space()?;
        let (base, span, distance) = (found.base(), found.span(), found.distance());
        let devices = u64::from(found.devices());
        // SAFETY: the header requires a writable pointer.
        unsafe { write(space, CSpace { base, span, distance, devices }) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_pointer(device: u32, address: CAddress) -> u64 {
    let place = (RegionId::new(address.region_id), Bytes::new(address.offset));
    devices::made(device).map_or(0, |device| device.memory.pointer(place.0, place.1))
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_site() -> u32 {
    if !RECORDS_SITES.load(Ordering::Relaxed) {
        return 0;
    }
    SITE.get().map_or(0, |site| site())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_labels(device: u32, pool: *mut u32, tag: *mut u32) -> Status {
    call(|| {
        let labels = LABELS.get().map_or((0, 0), |labels| labels(device));
        // SAFETY: the header requires writable pointers.
        unsafe {
            write(pool, labels.0)?;
            write(tag, labels.1)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_stream_new(
    device: u32,
    _priority: i32,
    stream: *mut u32,
) -> Status {
    call(|| {
        let created = devices::device(device)?.streams.create();
        let message = || format!("a device has at most {} streams", streams::MOST);
        let created = created.ok_or_else(|| Failure::new(Status::Full, message()))?;
        // SAFETY: the header requires a writable pointer.
        unsafe { write(stream, created) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_record(device: u32, stream: u32) -> u64 {
    devices::stream_time(device, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_stream_wait(device: u32, stream: u32, time: u64) {
    devices::stream_wait(device, stream, time);
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_work(device: u32, stream: u32, picoseconds: u64) -> u64 {
    devices::made(device)
        .map_or_else(streams::now, |device| device.streams.work(stream, 0, picoseconds))
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_passed(time: u64) -> c_int {
    c_int::from(time <= streams::now())
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_wait(time: u64) {
    streams::wait(time);
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_idle(device: u32) -> u64 {
    devices::made(device).map_or_else(streams::now, |device| device.streams.idle())
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_is_timed() -> c_int {
    c_int::from(operators::is_timed())
}

/// The struct `cubeyard_torch_cost` of the header.
#[repr(C)]
struct CCost {
    picoseconds: u64,
    id: u32,
    is_free: u32,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_torch_get_cost(
    name: *const c_char,
    words: *const u64,
    count: usize,
    cost: *mut CCost,
) -> Status {
    call(|| {
        if name.is_null() || words.is_null() {
            return Err(Failure::new(Status::Argument, "the operator is NULL"));
        }
        // SAFETY: the header requires a string, and so many words.
        let (name, words) =
            unsafe { (CStr::from_ptr(name), std::slice::from_raw_parts(words, count)) };
        let found = operators::cost(&name.to_string_lossy(), words)?;
        let free = CCost { picoseconds: 0, id: 0, is_free: 1 };
        let given = |Cost { picoseconds, id }| CCost { picoseconds, id, is_free: 0 };
        // SAFETY: the header requires a writable pointer.
        unsafe { write(cost, found.map_or(free, given)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_operator(device: u32, stream: u32, cost: CCost) -> Status {
    let CCost { picoseconds, id, .. } = cost;
    call(|| operators::add(device, stream, Cost { picoseconds, id }))
}

/// The struct `cubeyard_torch_place` of the header.
#[repr(C)]
struct CPlace {
    device: i64,
    stream: u32,
}

impl CPlace {
    /// Returns the stream; `None` for the host.
    fn read(&self) -> Option<Place> {
        let device = u32::try_from(self.device).ok()?;
        Some(Place { device, stream: self.stream })
    }
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_torch_copy(from: CPlace, to: CPlace, bytes: u64) -> Status {
    call(|| copies::add(from.read(), to.read(), bytes).map(|_| ()))
}

/// # Safety
/// If `place` is not null, it has room for a value.
unsafe fn write<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::new(Status::Argument, "the output pointer is NULL"));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { place.write(value) };
    Ok(())
}
