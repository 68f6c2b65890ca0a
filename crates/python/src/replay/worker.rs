//! Runs work on a separate thread, so that the caller can respond to Ctrl-C at any time and report progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::error::{self, Kind};

/// Interval between two checks for a signal.
const PAUSE: Duration = Duration::from_millis(20);

/// State shared by a caller and its work.
#[derive(Default)]
pub(crate) struct Ticket {
    abandoned: AtomicBool,
    steps: AtomicUsize,
}

/// Payload of the unwinding that ends abandoned work.
struct Abandoned;

impl Ticket {
    /// Counts completed steps; ends the work if the caller has abandoned it.
    pub(crate) fn advance(&self, steps: usize) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
        if self.abandoned.load(Ordering::Relaxed) {
            // Not a panic, so no hook is called. The loops of a replay cannot be ended in another way.
            std::panic::resume_unwind(Box::new(Abandoned));
        }
    }
}

/// Calls `work` on another thread and waits for it without the GIL. If a signal handler raises an exception, the wait
/// ends at once, and the work ends at its next step.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    told: &mut Told<'_>,
    work: impl FnOnce(&Ticket) -> T + Send + 'static,
) -> PyResult<T> {
    let ticket = Arc::new(Ticket::default());
    let (sender, receiver) = mpsc::channel();
    let theirs = Arc::clone(&ticket);
    let thread = thread::Builder::new().name("cubeyard".to_owned()).spawn(move || {
        // The caller may have stopped waiting.
        let _ = sender.send(work(&theirs));
    });
    let thread = thread
        .map_err(|error| Kind::Internal.error(format!("a thread cannot be started: {error}")))?;
    // A receiver cannot be shared between threads, so it is moved into the closure.
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

/// Returns the exception for work that has panicked.
fn failure(py: Python<'_>, thread: thread::JoinHandle<()>) -> PyErr {
    match py.detach(|| thread.join()) {
        Ok(()) => Kind::Internal.error("a thread ended without a result"),
        Err(panic) => error::internal(&*panic),
    }
}

/// Progress reported to a Python function.
pub(crate) struct Told<'py> {
    total: usize,
    done: usize,
    function: Option<Bound<'py, PyAny>>,
}

impl<'py> Told<'py> {
    pub(crate) fn new(total: usize, function: Option<Bound<'py, PyAny>>) -> Self {
        Self { total, done: 0, function }
    }

    /// Reports completed steps.
    pub(crate) fn tell(&mut self, steps: usize) -> PyResult<()> {
        self.done += steps;
        match &self.function {
            Some(function) if steps > 0 => function.call1((steps, self.total)).map(drop),
            _ => Ok(()),
        }
    }

    /// Reports the skipped steps as done.
    pub(crate) fn finish(&mut self) -> PyResult<()> {
        self.tell(self.total.saturating_sub(self.done))
    }
}
