//! Work on a thread of its own, so that the caller hears of Ctrl-C at any time, and its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::{self, Kind};

/// Time between two looks for a signal.
const PAUSE: Duration = Duration::from_millis(20);

/// State that a caller and its work share.
#[derive(Default)]
pub(crate) struct Ticket {
    abandoned: AtomicBool,
    steps: AtomicUsize,
}

/// Payload of the unwinding that ends work which nobody waits for.
struct Abandoned;

impl Ticket {
    /// Counts steps; ends the work if the caller has given it up.
    pub(crate) fn advance(&self, steps: usize) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
        if self.abandoned.load(Ordering::Relaxed) {
            // Not a panic: no hook is called. The loops of a replay know no other way out.
            std::panic::resume_unwind(Box::new(Abandoned));
        }
    }
}

/// Calls `work` on another thread and waits for it without the GIL. A signal handler that raises an exception ends the
/// waiting at once, and the work at its next step.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    told: &mut Told<'_>,
    work: impl FnOnce(&Ticket) -> T + Send + 'static,
) -> PyResult<T> {
    let ticket = Arc::new(Ticket::default());
    let (sender, receiver) = mpsc::channel();
    let theirs = Arc::clone(&ticket);
    let thread = thread::Builder::new().name("cubeyard".to_owned()).spawn(move || {
        // The caller may be gone.
        let _ = sender.send(work(&theirs));
    });
    let thread = thread.map_err(|error| Kind::Internal.error(format!("no thread: {error}")))?;
    // A receiver is not shared between threads; it goes along.
    let mut receiver = Some(receiver);
    loop {
        let waiting = receiver.take().expect("it is put back");
        let (answer, waiting) = py.detach(move || (waiting.recv_timeout(PAUSE), waiting));
        receiver = Some(waiting);
        match answer {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Disconnected) => return Err(failure(py, thread)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let told = told.tell(ticket.steps.swap(0, Ordering::Relaxed));
        if let Err(raised) = py.check_signals().and(told) {
            ticket.abandoned.store(true, Ordering::Relaxed);
            return Err(raised);
        }
    }
}

/// Returns the exception of work that has panicked.
fn failure(py: Python<'_>, thread: thread::JoinHandle<()>) -> PyErr {
    match py.detach(|| thread.join()) {
        Ok(()) => Kind::Internal.error("a thread ended without a result"),
        Err(panic) => error::internal(&*panic),
    }
}

/// Progress that is told to a function in Python.
pub(crate) struct Told<'py> {
    total: usize,
    done: usize,
    function: Option<Bound<'py, PyAny>>,
}

impl<'py> Told<'py> {
    pub(crate) fn new(total: usize, function: Option<Bound<'py, PyAny>>) -> Self {
        Self { total, done: 0, function }
    }

    /// Tells of steps that were done.
    pub(crate) fn tell(&mut self, steps: usize) -> PyResult<()> {
        self.done += steps;
        match &self.function {
            Some(function) if steps > 0 => function.call1((steps, self.total)).map(drop),
            _ => Ok(()),
        }
    }

    /// Tells of the steps that were left out.
    pub(crate) fn finish(&mut self) -> PyResult<()> {
        self.tell(self.total.saturating_sub(self.done))
    }
}
