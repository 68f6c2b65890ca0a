//! Run of a kernel on one PE: its tiles and expressions that Python holds, and its current line.
//!
//! Python objects are indices into the table of their run. The table belongs to the kernel's future, inside the
//! session; a thread can access it only while it resumes that kernel. So no object of a session is reachable from
//! elsewhere. The run identifies a tile that is used too late, in another kernel or in another thread.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_tl as tl;
use cubeyard_tl::LineId;
use cubeyard_tl::numeric::TileType;
use pyo3::prelude::*;

use super::lines::Lines;
use super::wanted::Wanted;
use crate::error::Kind;

/// A tile in the TCM. Dropping the last reference frees its memory at once.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Tile {
    pub(super) info: Arc<RunInfo>,
    key: u32,
    pub(super) ty: TileType,
}

/// An expression over tiles, which it keeps in the TCM. `tl.eval` computes it.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Lazy {
    pub(super) info: Arc<RunInfo>,
    key: u32,
    pub(super) ty: TileType,
}

impl Drop for Lazy {
    fn drop(&mut self) {
        self.info.release(self.key);
    }
}

impl Drop for Tile {
    fn drop(&mut self) {
        self.info.release(self.key);
    }
}

/// Information about a run that its Python objects share.
pub(crate) struct RunInfo {
    id: u64,
    /// Names of the kernel and the PE, e.g. `scale on sip0.cube0.pe0`.
    name: String,
    /// Keys of values that were dropped while the kernel was not being resumed.
    dropped: Mutex<Vec<u32>>,
    ended: AtomicBool,
}

/// Run as held by the kernel's future.
pub(crate) struct Run {
    info: Arc<RunInfo>,
    pub(crate) tl: tl::Tl,
    held: RefCell<Table>,
    lines: Rc<Lines>,
    /// Line ids in the kernel's tape, by index in `lines`.
    ids: RefCell<Vec<Option<LineId>>>,
    line: Cell<usize>,
    /// Place that the kernel has set for the following commands, instead of their own lines.
    place: RefCell<Option<Py<PyAny>>>,
    pub(super) wanted: Wanted,
}

/// Value held by Python.
#[derive(Clone)]
enum Held {
    Tile(tl::Tile),
    Lazy(tl::Lazy),
}

/// Values by number, each with the index of the line that created it.
#[derive(Default)]
struct Table {
    all: Vec<Option<(Held, usize)>>,
    free: Vec<u32>,
}

thread_local! {
    /// Run that this thread is resuming.
    static CURRENT: RefCell<Option<Rc<Run>>> = const { RefCell::new(None) };
}

/// Guard that restores the previously resumed run.
struct Entered(Option<Rc<Run>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

impl Run {
    pub(crate) fn new(kernel: &str, tl: tl::Tl, lines: Rc<Lines>) -> Rc<Self> {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let info = RunInfo {
            id: RUNS.fetch_add(1, Ordering::Relaxed),
            name: format!("{kernel} on {}", tl.pe()),
            dropped: Mutex::default(),
            ended: AtomicBool::new(false),
        };
        Rc::new(Self {
            info: Arc::new(info),
            tl,
            held: RefCell::default(),
            lines,
            ids: RefCell::default(),
            line: Cell::new(0),
            place: RefCell::default(),
            wanted: Wanted::default(),
        })
    }

    pub(crate) fn info(&self) -> &Arc<RunInfo> {
        &self.info
    }

    /// Calls `act` as part of the kernel.
    pub(crate) fn enter<T>(self: &Rc<Self>, act: impl FnOnce() -> T) -> T {
        let _outer = Entered(CURRENT.replace(Some(Rc::clone(self))));
        self.drop_values();
        let done = act();
        self.drop_values();
        done
    }

    /// Drops the values that Python released while the kernel was not being resumed.
    fn drop_values(&self) {
        let dropped = std::mem::take(&mut *self.info.dropped());
        dropped.into_iter().for_each(|key| self.release(key));
    }

    /// Ends the run, and drops the values that Python still holds.
    pub(crate) fn end(&self) {
        self.info.ended.store(true, Ordering::Relaxed);
        self.wanted.clear();
        let held = self.held.take();
        drop(held);
    }

    /// Returns the type and the line of a value that Python still holds, if any.
    pub(crate) fn kept_tile(&self) -> Option<String> {
        self.drop_values();
        let held = self.held.borrow();
        let (value, line) = held.all.iter().flatten().next()?;
        let (kind, ty) = match value {
            Held::Tile(tile) => ("tile", tile.ty()),
            Held::Lazy(lazy) => ("expression", lazy.ty()),
        };
        Some(format!("the {kind} {ty} of {}", self.lines.name(*line)))
    }

    /// Sets the line of the following commands to the line of the innermost Python frame, unless the
    /// kernel has set a place.
    fn look_at_line(&self, py: Python<'_>) {
        if self.place.borrow().is_none() {
            let line = self.lines.current(py);
            self.line.set(line);
            self.set_line(line);
        }
    }

    /// Returns the place that the kernel has set.
    pub(super) fn place(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.place.borrow().as_ref().map(|place| place.clone_ref(py))
    }

    /// Attributes the following commands to a place; to the lines of Python frames if it is `None`.
    pub(super) fn set_place(&self, place: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        if let Some(place) = place {
            let line = self.lines.given(place)?;
            self.line.set(line);
            self.set_line(line);
        }
        // Dropping an object may run Python code, so the borrow ends first.
        let before = self.place.replace(place.map(|place| place.clone().unbind()));
        drop(before);
        Ok(())
    }

    /// Sets the line of an error to a line known by other means, unless the kernel has set a place.
    pub(super) fn set_unplaced(&self, line: impl FnOnce() -> (String, u32)) {
        if self.place.borrow().is_none() {
            let (file, line) = line();
            self.set_line(self.lines.of(file, line));
        }
    }

    /// Sets the line by its index.
    fn set_line(&self, line: usize) {
        let mut ids = self.ids.borrow_mut();
        if ids.len() <= line {
            ids.resize(line + 1, None);
        }
        let id = *ids[line].get_or_insert_with(|| self.tl.new_line(self.lines.place(line)));
        self.tl.set_line(id);
    }

    /// Returns a tile that Python holds.
    pub(crate) fn tile(&self, tile: &Tile) -> PyResult<tl::Tile> {
        match self.held(&tile.info, tile.key)? {
            Held::Tile(tile) => Ok(tile),
            Held::Lazy(_) => unreachable!("the key of a tile is that of a tile"),
        }
    }

    /// Returns an expression that Python holds.
    pub(crate) fn lazy(&self, lazy: &Lazy) -> PyResult<tl::Lazy> {
        match self.held(&lazy.info, lazy.key)? {
            Held::Lazy(lazy) => Ok(lazy),
            Held::Tile(_) => unreachable!("the key of an expression is that of an expression"),
        }
    }

    fn held(&self, of: &RunInfo, key: u32) -> PyResult<Held> {
        if of.id != self.info.id {
            return Err(self.fail(&of.misuse()));
        }
        let held = self.held.borrow();
        let found = held.all.get(key as usize).and_then(Option::as_ref);
        // A run that has ended holds no values, but Python finalizers may still use one.
        found.map(|(value, _)| value.clone()).ok_or_else(|| self.fail(&of.misuse()))
    }

    /// Calls functions of `tl`, and converts their errors to exceptions.
    pub(crate) fn attempt<T>(&self, act: impl FnOnce(&tl::Tl) -> T) -> PyResult<T> {
        self.tl.attempt(|| act(&self.tl)).map_err(|text| Kind::Kernel.error(text))
    }

    /// Calls a function of `tl` that creates a tile.
    pub(crate) fn make(&self, act: impl FnOnce(&tl::Tl) -> tl::Tile) -> PyResult<Tile> {
        Ok(self.keep(self.attempt(act)?))
    }

    /// Registers a tile for Python.
    pub(crate) fn keep(&self, tile: tl::Tile) -> Tile {
        let (info, ty) = (Arc::clone(&self.info), tile.ty().clone());
        Tile { info, ty, key: self.hold(Held::Tile(tile)) }
    }

    /// Calls a function that creates an expression.
    pub(crate) fn make_lazy(&self, act: impl FnOnce() -> tl::Lazy) -> PyResult<Lazy> {
        let lazy = self.attempt(|_| act())?;
        let (info, ty) = (Arc::clone(&self.info), lazy.ty().clone());
        Ok(Lazy { info, ty, key: self.hold(Held::Lazy(lazy)) })
    }

    fn hold(&self, value: Held) -> u32 {
        self.held.borrow_mut().insert(value, self.line.get())
    }

    /// Marks the kernel as failed with an error, and creates the exception.
    pub(crate) fn fail(&self, what: &dyn Display) -> PyErr {
        Kind::Kernel.error(self.tl.note_failure(what))
    }

    fn release(&self, key: u32) {
        // The value is dropped after the end of the borrow.
        let gone = self.held.borrow_mut().remove(key);
        drop(gone);
    }
}

impl Table {
    fn insert(&mut self, value: Held, line: usize) -> u32 {
        if let Some(key) = self.free.pop() {
            self.all[key as usize] = Some((value, line));
            return key;
        }
        self.all.push(Some((value, line)));
        u32::try_from(self.all.len() - 1).expect("fewer than 2³² values")
    }

    fn remove(&mut self, key: u32) -> Option<(Held, usize)> {
        let gone = self.all.get_mut(key as usize)?.take();
        self.free.extend(gone.is_some().then_some(key));
        gone
    }
}

impl RunInfo {
    /// Returns the names of the kernel and the PE.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns this run with its line up to date; an exception unless this thread is resuming the run.
    pub(crate) fn run(&self, py: Python<'_>) -> PyResult<Rc<Run>> {
        let run = self.resumed(py)?;
        run.look_at_line(py);
        Ok(run)
    }

    /// Returns this run; an exception unless this thread is resuming it.
    pub(super) fn resumed(&self, py: Python<'_>) -> PyResult<Rc<Run>> {
        match current() {
            Some(run) if run.info.id == self.id => Ok(run),
            other => Err(failure(py, other, &self.misuse())),
        }
    }

    /// Releases a value, at once or when the kernel is next resumed.
    pub(crate) fn release(&self, key: u32) {
        match current() {
            Some(run) if run.info.id == self.id => run.release(key),
            _ if self.ended.load(Ordering::Relaxed) => {}
            _ => self.dropped().push(key),
        }
    }

    fn dropped(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes the use of a tile or of `tl` outside its run.
    fn misuse(&self) -> String {
        let why = if self.ended.load(Ordering::Relaxed) {
            "which has ended: tiles and tl belong to one run of a kernel"
        } else {
            "which does not run here: tiles and tl belong to one run of a kernel, and to its thread"
        };
        format!("used outside its run of {}, {why}", self.name)
    }
}

fn current() -> Option<Rc<Run>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Creates an exception that names the current line of the running kernel, if there is one.
fn failure(py: Python<'_>, run: Option<Rc<Run>>, what: &str) -> PyErr {
    match run {
        Some(run) => {
            run.look_at_line(py);
            run.fail(&what)
        }
        None => Kind::Kernel.error(what),
    }
}

/// Creates the exception for an error in the running kernel.
pub(crate) fn fail(py: Python<'_>, what: &str) -> PyErr {
    failure(py, current(), what)
}
