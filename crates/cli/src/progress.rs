//! Progress bars on standard error for long work.

use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Delay before a bar is shown.
const PATIENCE: Duration = Duration::from_millis(400);
/// Interval between two steps of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// Progress bar that appears after [`PATIENCE`], if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
}

impl Progress {
    /// Creates a hidden bar; it is never shown if `quiet` is set or standard error is not a terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { shown: Shown::new(quiet, "{bar:30} {percent:>3} %  {wide_msg}") }
    }

    /// Sets the total number of steps.
    pub(crate) fn expect(&self, steps: usize) {
        self.shown.bar.set_length(steps as u64);
    }

    /// Sets the description of the current work.
    pub(crate) fn turn_to(&self, what: String) {
        self.shown.bar.set_message(what);
    }

    /// Advances the bar by a number of steps.
    pub(crate) fn advance(&self, steps: usize) {
        self.shown.bar.inc(steps as u64);
    }

    /// Sets the number of completed or skipped steps.
    pub(crate) fn settle_at(&self, steps: usize) {
        self.shown.bar.set_position(steps as u64);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(self) {
        drop(self.shown);
    }
}

/// Spinner that appears during one long step, if standard error is a terminal; it is removed when dropped.
#[derive(Debug)]
pub(crate) struct Busy {
    shown: Shown,
}

impl Busy {
    /// Creates a spinner; it is never shown if `quiet` is set or standard error is not a terminal.
    pub(crate) fn new(quiet: bool, what: &str) -> Self {
        let shown = Shown::new(quiet, "{spinner} {elapsed}  {wide_msg}");
        shown.bar.set_message(what.to_owned());
        Self { shown }
    }

    /// Sets the description of the current work.
    pub(crate) fn turn_to(&self, what: String) {
        self.shown.bar.set_message(what);
    }

    /// Runs work that may print, with the spinner hidden.
    pub(crate) fn step<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shown.bar.suspend(work)
    }
}

/// Bar or spinner that a thread shows after [`PATIENCE`], independently of the work.
#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    done: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Shown {
    fn new(quiet: bool, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        let wanted = !quiet && terminal::is_watched();
        let done = wanted.then(|| shown_later(bar.clone())).flatten();
        Self { bar, done }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.done.take() {
            drop(done);
            // The thread only draws, so a panic in it can be ignored.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Starts a thread that shows the bar after [`PATIENCE`], unless the sender has been dropped by then. Returns `None` if
/// no thread can be started: the work continues without a bar.
fn shown_later(bar: ProgressBar) -> Option<(mpsc::Sender<()>, JoinHandle<()>)> {
    let (done, wait) = mpsc::channel();
    let thread = Builder::new().spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
            // Waits until the sender is dropped.
            let _ = wait.recv();
        }
    });
    Some((done, thread.ok()?))
}
