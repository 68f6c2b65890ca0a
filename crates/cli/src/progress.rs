//! `Progress`: a bar on standard error while work takes long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Work that is done by then needs no bar.
const PATIENCE: Duration = Duration::from_millis(400);

/// A bar that appears once the work has taken a while, if anybody watches.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    begin: Instant,
    wanted: bool,
}

impl Progress {
    /// A bar that is not there yet, and never will be if `quiet` or off a terminal.
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {wide_msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self { bar, begin: now(), wanted: !quiet && terminal::is_watched() }
    }

    /// There are `steps` steps to take in all.
    pub(crate) fn expect(&self, steps: usize) {
        self.bar.set_length(steps as u64);
    }

    /// The work turns to something else.
    pub(crate) fn turn_to(&mut self, what: String) {
        self.bar.set_message(what);
        self.show();
    }

    /// Some steps were taken.
    pub(crate) fn advance(&mut self, steps: usize) {
        self.bar.inc(steps as u64);
        self.show();
    }

    /// So many steps were taken in all, or will not be.
    pub(crate) fn settle_at(&mut self, steps: usize) {
        self.bar.set_position(steps as u64);
    }

    /// Takes the bar away.
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
