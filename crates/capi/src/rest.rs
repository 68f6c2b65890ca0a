//! Resting: memory that is returned to the device while addresses stay.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{FlexAllocator, PauseError, PoolId, ResumeError};

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{Failure, Status};

impl From<PauseError> for Failure {
    fn from(error: PauseError) -> Self {
        let status = match error {
            PauseError::FixedRegions => Status::Unsupported,
            PauseError::UnknownPool(_) => Status::Stale,
            PauseError::UnknownTag(_) => Status::UnknownKey,
            PauseError::Pinned { .. } => Status::InUse,
            PauseError::Reentrant => Status::Reentrant,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ResumeError> for Failure {
    fn from(error: ResumeError) -> Self {
        let status = match error {
            ResumeError::UnknownPool(_) => Status::Stale,
            ResumeError::UnknownTag(_) => Status::UnknownKey,
            ResumeError::NoMemory { .. } => Status::Full,
            ResumeError::Reentrant => Status::Reentrant,
            _ => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}

/// Calls `act`, and writes the number of bytes.
///
/// # Safety
/// Pointers that are neither null nor unaligned point to an allocator and to writable memory.
unsafe fn rest(
    allocator: *const Front,
    bytes: *mut u64,
    act: impl FnOnce(&FlexAllocator) -> Result<Bytes, Failure>,
) -> Status {
    call(|| {
        // SAFETY: guaranteed by the caller.
        let front = unsafe { Front::of(allocator) }?;
        argument::place_if(bytes, "bytes")?;
        let done = act(&front.allocator)?;
        // SAFETY: guaranteed by the caller.
        unsafe { argument::write_if(bytes, "bytes", done.get()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_pause(
    allocator: *const Front,
    pool: u32,
    bytes: *mut u64,
) -> Status {
    // SAFETY: the header requires an allocator, and NULL or a writable pointer.
    unsafe { rest(allocator, bytes, |inner| Ok(inner.pause_pool(PoolId::new(pool))?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pool_resume(
    allocator: *const Front,
    pool: u32,
    bytes: *mut u64,
) -> Status {
    // SAFETY: the header requires an allocator, and NULL or a writable pointer.
    unsafe { rest(allocator, bytes, |inner| Ok(inner.resume_pool(PoolId::new(pool))?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_tag_pause(
    allocator: *const Front,
    tag: u32,
    bytes: *mut u64,
) -> Status {
    // SAFETY: the header requires an allocator, and NULL or a writable pointer.
    unsafe { rest(allocator, bytes, |inner| Ok(inner.pause_tag(argument::tag(tag)?)?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_tag_resume(
    allocator: *const Front,
    tag: u32,
    bytes: *mut u64,
) -> Status {
    // SAFETY: the header requires an allocator, and NULL or a writable pointer.
    unsafe { rest(allocator, bytes, |inner| Ok(inner.resume_tag(argument::tag(tag)?)?)) }
}
