//! Transfer of bytes between Python and Rust, with at most one copy.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use cubeyard_runtime::dtype::DType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::error::Kind;

/// Minimum number of bytes for a copy without the GIL.
const MANY: usize = 1 << 20;
/// Alignment of `madvise` ranges, in bytes.
#[cfg(target_os = "linux")]
const PAGE: usize = 4096;

/// Copies the bytes of a contiguous object.
pub(crate) fn copy_in(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let buffer = contiguous(object)?;
    let count = buffer.item_count();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(count).map_err(|_| no_room(count))?;
    want_huge_pages(&bytes);
    // SAFETY: the buffer keeps its memory of `count` bytes alive, the vector has room for `count` bytes, and its length
    // is set after they were written. If another Python thread changes the array meanwhile, the copy may contain the
    // changes, as in NumPy.
    #[expect(unsafe_code, reason = "the safety comment above")]
    unsafe {
        copy(py, buffer.buf_ptr().cast(), bytes.as_mut_ptr(), count);
        bytes.set_len(count);
    }
    Ok(bytes)
}

/// Requests huge pages, as NumPy does for its arrays: the first access to each page of new memory takes longer
/// than the copy itself.
#[cfg(target_os = "linux")]
fn want_huge_pages(bytes: &Vec<u8>) {
    use rustix::mm::{Advice, madvise};
    let start = bytes.as_ptr().addr().next_multiple_of(PAGE);
    let end = bytes.as_ptr().addr() + bytes.capacity();
    if bytes.capacity() < MANY || start >= end {
        return;
    }
    let first = bytes.as_ptr().with_addr(start).cast_mut().cast::<c_void>();
    // SAFETY: the range lies within the vector, and the advice changes no contents. A kernel without huge pages refuses
    // the advice, which is harmless.
    #[expect(unsafe_code, reason = "the safety comment above")]
    let _ = unsafe { madvise(first, end - start, Advice::LinuxHugepage) };
}

#[cfg(not(target_os = "linux"))]
fn want_huge_pages(_: &Vec<u8>) {}

/// Copies bytes into a contiguous object of the same size.
pub(crate) fn copy_out(py: Python<'_>, bytes: &[u8], into: &Bound<'_, PyAny>) -> PyResult<()> {
    let buffer = contiguous(into)?;
    if buffer.readonly() || buffer.item_count() != bytes.len() {
        let (found, expected) = (buffer.item_count(), bytes.len());
        let text = format!("a buffer of {found} bytes: expected a writable buffer of {expected}");
        return Err(Kind::Input.error(text));
    }
    // SAFETY: the buffer is writable, keeps its memory of this size alive, and does not overlap memory that Rust owns.
    #[expect(unsafe_code, reason = "the safety comment above")]
    unsafe {
        copy(py, bytes.as_ptr(), buffer.buf_ptr().cast(), bytes.len());
    }
    Ok(())
}

/// Returns the bytes of a contiguous object.
pub(crate) fn contiguous(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    let buffer = PyBuffer::<u8>::get(object)?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(Kind::Input.error("a buffer with gaps: expected contiguous bytes"))
}

/// Creates the exception for a host that has run out of memory.
pub(crate) fn no_room(bytes: usize) -> PyErr {
    let details = [("requested", bytes as u64)];
    Kind::OutOfMemory.with(format!("the host has no {bytes} bytes of memory"), &details)
}

/// Source and destination addresses of a copy without the GIL.
struct Ends(*const u8, *mut u8);

// SAFETY: the addresses are used only within the call that creates them, whose caller keeps both memories alive.
#[expect(unsafe_code, reason = "the safety comment above")]
unsafe impl Send for Ends {}

/// Copies bytes, without the GIL if there are at least [`MANY`].
///
/// # Safety
/// Both memories have at least `count` bytes, do not overlap, and stay alive during the call.
#[expect(unsafe_code, reason = "the caller's promise")]
unsafe fn copy(py: Python<'_>, from: *const u8, to: *mut u8, count: usize) {
    let ends = Ends(from, to);
    let act = move || {
        let Ends(from, to) = { ends };
        // SAFETY: guaranteed by the caller.
        unsafe { ptr::copy_nonoverlapping(from, to, count) };
    };
    if count < MANY { act() } else { py.detach(act) }
}

/// Bytes of a tensor on the host, which Python reads without a copy.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct HostBytes {
    pub(crate) bytes: Arc<Vec<u8>>,
}

#[pymethods]
impl HostBytes {
    #[expect(unsafe_code, reason = "the buffer protocol is one of C")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        let size = ffi::Py_ssize_t::try_from(bytes.len())
            .map_err(|_| PyBufferError::new_err("too many bytes"))?;
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        // SAFETY: the view was passed in by Python to be filled. It is read-only, and holds a reference to the object,
        // which owns the bytes and never changes them.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, size, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __len__(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HostBytes>()
}

/// Parses the name of an element type.
pub(crate) fn dtype(name: &str) -> PyResult<DType> {
    name.parse().map_err(|error| Kind::Input.error(format!("dtype: {error}")))
}
