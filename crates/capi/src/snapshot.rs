//! Snapshots, written to a file or to a function of the caller.

use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{Failure, Status};

/// Highest device number; a snapshot lists all devices up to its own.
const MOST_DEVICES: u32 = u16::MAX as u32;

type Sink = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// A function of the caller that receives bytes.
struct Writer {
    function: Sink,
    user: *mut c_void,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the caller passed this function for this purpose, with this pointer.
        let failed = unsafe { (self.function)(self.user, bytes.as_ptr().cast(), bytes.len()) } != 0;
        if failed {
            return Err(io::Error::other("the function for the bytes failed"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Front {
    fn write_snapshot(&self, device: u32, sink: impl Write) -> io::Result<()> {
        let mut sink = BufWriter::with_capacity(1 << 16, sink);
        self.allocator.snapshot().write_pickle(device, &mut sink)?;
        sink.flush()
    }
}

fn check_device(device: u32) -> Result<(), Failure> {
    if device <= MOST_DEVICES {
        return Ok(());
    }
    Err(argument::wrong("device", &format!("is {device}, but must be at most {MOST_DEVICES}")))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_snapshot_file(
    allocator: *const Front,
    device: u32,
    path: *const c_char,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a string.
        let (front, path) = unsafe { (Front::of(allocator)?, argument::text(path, "path")?) };
        check_device(device)?;
        File::create(path)
            .and_then(|file| front.write_snapshot(device, file))
            .map_err(|error| Failure::new(Status::Io, format!("{path}: {error}")))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_snapshot_write(
    allocator: *const Front,
    device: u32,
    write: Option<Sink>,
    user: *mut c_void,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        check_device(device)?;
        let writer = Writer { function: argument::function(write, "write")?, user };
        front
            .write_snapshot(device, writer)
            .map_err(|error| Failure::new(Status::Io, error.to_string()))
    })
}
