//! Exports: handles with which another process or another API can open the memory of a block.

use cubeyard_memory::flex::ExportError;

use crate::Front;
use crate::argument;
use crate::block::CBlock;
use crate::call::call;
use crate::status::{Failure, Status};

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Token(error) => error.into(),
            ExportError::Paused { .. } => Self::new(Status::Paused, error.to_string()),
            _ => Self::new(Status::Unsupported, error.to_string()),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_export_begin(
    allocator: *const Front,
    block: CBlock,
    export: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(export, "export")?;
        let made = front.allocator.export_token(block.token())?;
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(export, "export", front.exports.insert(made)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_export_handle(
    allocator: *const Front,
    export: u64,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    offset: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let handle = front.exports.with(export, |export| Ok(export.handle().clone()))?;
        argument::place_if(offset, "offset")?;
        // SAFETY: the header requires room for `capacity` bytes, and NULL or writable pointers.
        unsafe {
            argument::write_list((buffer, capacity), length, &handle.bytes, "buffer")?;
            argument::write_if(offset, "offset", handle.offset.get())
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_export_end(allocator: *const Front, export: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.exports.remove(export).map(drop)
    })
}
