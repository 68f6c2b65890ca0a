//! Lines of Python's code.

use std::cell::RefCell;

use cubeyard_tl::{Place, ScriptLine};
use pyo3::ffi;
use pyo3::prelude::*;

/// The lines that a kernel has been at, by index.
#[derive(Default)]
pub(crate) struct Lines(RefCell<Known>);

#[derive(Default)]
struct Known {
    /// Code and line, sorted, with their index. The code is that of `codes`, so its address stays its own.
    indices: Vec<((usize, u32), usize)>,
    codes: Vec<Py<PyAny>>,
    places: Vec<ScriptLine>,
    /// The line of the last call, which is often that of the next.
    last: Option<((usize, u32), usize)>,
}

impl Lines {
    /// Returns the index of the line of the innermost frame.
    pub(crate) fn current(&self, py: Python<'_>) -> usize {
        let (code, line) = innermost(py);
        let key = (code.as_ptr().addr(), line);
        let mut known = self.0.borrow_mut();
        match known.last {
            Some((last, index)) if last == key => index,
            _ => known.find(key, code),
        }
    }

    /// Returns the index of a line of a file.
    pub(crate) fn of(&self, file: String, line: u32) -> usize {
        self.0.borrow_mut().add(ScriptLine { file, line })
    }

    /// Returns a line by its index.
    pub(crate) fn place(&self, index: usize) -> ScriptLine {
        self.0.borrow().places[index].clone()
    }

    /// Returns file name and number of a line.
    pub(crate) fn name(&self, index: usize) -> String {
        Place::Script(&self.0.borrow().places[index]).to_string()
    }
}

impl Known {
    fn find(&mut self, key: (usize, u32), code: Bound<'_, PyAny>) -> usize {
        let index = match self.indices.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => self.indices[at].1,
            Err(at) => {
                let index = self.add(ScriptLine { file: file_of(&code), line: key.1 });
                self.indices.insert(at, (key, index));
                self.codes.push(code.unbind());
                index
            }
        };
        self.last = Some((key, index));
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

/// Returns the code and the line of the innermost frame of Python; none where no frame runs.
fn innermost(py: Python<'_>) -> (Bound<'_, PyAny>, u32) {
    // SAFETY: the thread is attached to the interpreter. The frame is borrowed and stays while its function runs, which
    // calls this; its code is a new reference.
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
