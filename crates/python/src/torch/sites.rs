//! Stacks of allocations, numbered so that equal stacks have equal numbers.

#![allow(
    unsafe_code,
    reason = "the frames of a thread are asked for in C; each call says why it is sound"
)]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::Frame;
use pyo3::ffi;
use pyo3::prelude::*;

/// Maximum number of frames kept per stack, from the innermost.
const DEEPEST: usize = 64;
/// Maximum number of distinct stacks.
const MOST: usize = 1 << 18;

/// Frame: the address of its code object, and its line.
type Key = (usize, u32);

/// Stacks, indexed by their number minus one.
static SITES: Mutex<Sites> = Mutex::new(Sites { numbers: BTreeMap::new(), stacks: Vec::new() });

struct Sites {
    numbers: BTreeMap<Vec<Key>, u32>,
    /// Code objects, kept alive by this list, and lines.
    stacks: Vec<Vec<(Py<PyAny>, u32)>>,
}

/// Returns the number of the current Python stack; 0 if there is none, or if there are too many stacks.
pub(super) fn here() -> u32 {
    // SAFETY: the function may be called on any thread, with or without the GIL.
    if unsafe { ffi::PyGILState_GetThisThreadState() }.is_null() {
        return 0;
    }
    Python::try_attach(number).flatten().unwrap_or(0)
}

fn number(py: Python<'_>) -> Option<u32> {
    let frames = frames(py).ok().filter(|frames| !frames.is_empty())?;
    let key: Vec<Key> = frames.iter().map(|(code, line)| (code.as_ptr() as usize, *line)).collect();
    // No Python code runs while this is locked.
    let mut sites = sites();
    if let Some(&number) = sites.numbers.get(&key) {
        return Some(number);
    }
    if sites.stacks.len() >= MOST {
        return None;
    }
    sites.stacks.push(frames.into_iter().map(|(code, line)| (code.unbind(), line)).collect());
    let number = u32::try_from(sites.stacks.len()).ok()?;
    sites.numbers.insert(key, number);
    Some(number)
}

/// Returns the code objects and lines of the functions running on this thread, innermost first.
fn frames(py: Python<'_>) -> PyResult<Vec<(Bound<'_, PyAny>, u32)>> {
    // SAFETY: this thread has the GIL; the frame is borrowed from the interpreter, and may be null.
    let innermost = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) };
    let mut next = innermost;
    let mut frames = Vec::new();
    while let Some(frame) = next.filter(|_| frames.len() < DEEPEST) {
        // A frame between lines has no line number.
        let line: Option<u32> = frame.getattr("f_lineno")?.extract()?;
        frames.push((frame.getattr("f_code")?, line.unwrap_or(0)));
        next = Some(frame.getattr("f_back")?).filter(|back| !back.is_none());
    }
    Ok(frames)
}

/// Returns the frames of a stack by its number.
pub(super) fn stack(py: Python<'_>, number: u32) -> Vec<Frame> {
    let found: Vec<_> = {
        let sites = sites();
        let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let stack = place.and_then(|place| sites.stacks.get(place));
        stack.into_iter().flatten().map(|(code, line)| (code.clone_ref(py), *line)).collect()
    };
    let text = |code: &Py<PyAny>, name: &str| {
        let text = code.getattr(py, name).and_then(|text| text.extract::<String>(py));
        text.unwrap_or_default()
    };
    let frame = |(code, line)| Frame {
        filename: text(&code, "co_filename"),
        line,
        name: text(&code, "co_qualname"),
    };
    found.into_iter().map(frame).collect()
}

fn sites() -> MutexGuard<'static, Sites> {
    SITES.lock().unwrap_or_else(PoisonError::into_inner)
}
