//! Source lines of Python code.

use std::cell::RefCell;

use cubeyard_tl::{Place, ScriptLine};
use pyo3::ffi;
use pyo3::prelude::*;

/// Lines that a kernel has executed, by index.
#[derive(Default)]
pub(crate) struct Lines(RefCell<Known>);

#[derive(Default)]
struct Known {
    /// Keys with their index, sorted. A key is the address of a code object or place, and a line. `objects` keeps the
    /// objects alive, so that an address is never reused for another object.
    indices: Vec<((usize, u32), usize)>,
    objects: Vec<Py<PyAny>>,
    places: Vec<ScriptLine>,
    /// Key and index of the last call's line, which is often also the line of the next call.
    last: Option<((usize, u32), usize)>,
}

impl Lines {
    /// Returns the index of the line of the innermost frame.
    pub(crate) fn current(&self, py: Python<'_>) -> usize {
        let (code, line) = innermost(py);
        let key = (code.as_ptr().addr(), line);
        let seen = self.0.borrow_mut().seen(key);
        seen.unwrap_or_else(|| {
            let file = file_of(&code);
            self.0.borrow_mut().insert(key, ScriptLine { file, line }, code)
        })
    }

    /// Returns the index of a place: an object with a `file` and a `line`, each of which is read once.
    pub(crate) fn given(&self, place: &Bound<'_, PyAny>) -> PyResult<usize> {
        let key = (place.as_ptr().addr(), 0);
        let seen = self.0.borrow_mut().seen(key);
        if let Some(index) = seen {
            return Ok(index);
        }
        let Given { file, line } = place.extract()?;
        Ok(self.0.borrow_mut().insert(key, ScriptLine { file, line }, place.clone()))
    }

    /// Returns the index of a line of a file.
    pub(crate) fn of(&self, file: String, line: u32) -> usize {
        self.0.borrow_mut().add(ScriptLine { file, line })
    }

    /// Returns a line by its index.
    pub(crate) fn place(&self, index: usize) -> ScriptLine {
        self.0.borrow().places[index].clone()
    }

    /// Returns the file name and number of a line.
    pub(crate) fn name(&self, index: usize) -> String {
        Place::Script(&self.0.borrow().places[index]).to_string()
    }
}

/// Place given by a caller.
#[derive(FromPyObject)]
struct Given {
    file: String,
    line: u32,
}

impl Known {
    /// Returns the index of a line that was seen before.
    fn seen(&mut self, key: (usize, u32)) -> Option<usize> {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == key) {
            return Some(index);
        }
        let at = self.indices.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        let index = self.indices[at].1;
        self.last = Some((key, index));
        Some(index)
    }

    /// Adds the line of an object; the key contains the object's address.
    fn insert(&mut self, key: (usize, u32), place: ScriptLine, object: Bound<'_, PyAny>) -> usize {
        let index = self.add(place);
        let at = self.indices.partition_point(|(known, _)| *known < key);
        self.indices.insert(at, (key, index));
        self.objects.push(object.unbind());
        index
    }

    fn add(&mut self, place: ScriptLine) -> usize {
        self.places.push(place);
        self.places.len() - 1
    }
}

/// Returns the file of a code object.
fn file_of(code: &Bound<'_, PyAny>) -> String {
    let file = code.getattr("co_filename").and_then(|file| file.extract());
    file.unwrap_or_else(|_| "?".to_owned())
}

/// Returns the code and the line of the innermost Python frame; Python's `None` as the code if no frame is running.
fn innermost(py: Python<'_>) -> (Bound<'_, PyAny>, u32) {
    // SAFETY: the thread is attached to the interpreter. The frame is borrowed, and stays alive while its function
    // runs, which is the caller of this; its code is a new reference.
    #[expect(
        unsafe_code,
        reason = "the stable interface of C is all there is, and the comment above"
    )]
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return (py.None().into_bound(py), 0);
        }
        let code = Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame).cast());
        (code, u32::try_from(ffi::PyFrame_GetLineNumber(frame)).unwrap_or(0))
    }
}
