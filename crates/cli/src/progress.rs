//! Progress bar on standard error for long work.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Duration of work below which no bar is shown.
const PATIENCE: Duration = Duration::from_millis(400);
/// Time between two steps of a spinner.
const TICK: Duration = Duration::from_millis(100);

/// A bar that appears once the work has taken a while, if standard error is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    wanted: bool,
}

impl Progress {
    /// Creates a hidden bar, which is never shown if `quiet` or without a terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self { bar, begin: now(), wanted: !quiet && terminal::is_watched() }
    }

    /// Sets the total number of steps.
    pub(crate) fn expect(&self, steps: usize) {
        self.bar.set_length(steps as u64);
    }

    /// Sets the description of the current work.
    pub(crate) fn turn_to(&mut self, what: String) {
        self.bar.set_message(what);
        self.show();
    }

    /// Advances the bar by a number of steps.
    pub(crate) fn advance(&mut self, steps: usize) {
        self.bar.inc(steps as u64);
        self.show();
    }

    /// Sets the number of steps that are done or have been skipped.
    pub(crate) fn settle_at(&mut self, steps: usize) {
        self.bar.set_position(steps as u64);
    }

    /// Removes the bar from the terminal.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn show(&mut self) {
        if self.wanted && self.begin.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.wanted = false;
        }
    }
}

/// A spinner that appears while one long step is under way, if standard error is a terminal; it goes when dropped.
#[derive(Debug)]
pub(crate) struct Busy {
    bar: ProgressBar,
    done: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

impl Busy {
    /// Creates a spinner, which is never shown if `quiet` or without a terminal.
    pub(crate) fn new(quiet: bool, what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}");
        bar.set_style(style.expect("the template is well-formed"));
        bar.set_message(what.to_owned());
        let wanted = !quiet && terminal::is_watched();
        let done = wanted.then(|| shown_later(bar.clone()));
        Self { bar, done }
    }

    /// Sets the description of the current work.
    pub(crate) fn turn_to(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Does something that may print, with the spinner out of the way.
    pub(crate) fn step<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((done, thread)) = self.done.take() {
            drop(done);
            // The thread only draws; there is nothing to lose if it has panicked.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Starts a thread that shows a bar after a while, unless the sender has been dropped by then.
fn shown_later(bar: ProgressBar) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
            // Until the sender is dropped.
            let _ = wait.recv();
        }
    });
    (done, thread)
}

#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> Instant {
    Instant::now()
}
