//! Progress bar on standard error for long work.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Duration of work below which no bar is shown.
const PATIENCE: Duration = Duration::from_millis(400);

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

#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> Instant {
    Instant::now()
}
