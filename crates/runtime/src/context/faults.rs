//! Fault injection for tests.

use std::cell::Cell;

use super::{Context, Inner};
use crate::error::RuntimeError;

/// Counter of a context's steps: each allocation, mapping, transfer and launch is one.
#[derive(Debug, Default)]
pub(super) struct Steps {
    taken: Cell<u64>,
    fails: Cell<Option<u64>>,
}

/// Wraps a context to count its steps and to make one of them fail, until this is dropped.
#[derive(Debug)]
pub struct Faults<'c>(&'c Context);

impl<'c> Faults<'c> {
    /// Counts the context's steps from 0; step number `fails` returns [`RuntimeError::Injected`].
    pub fn new(context: &'c Context, fails: Option<u64>) -> Self {
        context.inner.steps.taken.set(0);
        context.inner.steps.fails.set(fails);
        Self(context)
    }

    /// Returns the number of steps taken so far.
    pub fn steps(&self) -> u64 {
        self.0.inner.steps.taken.get()
    }
}

impl Drop for Faults<'_> {
    fn drop(&mut self) {
        self.0.inner.steps.fails.set(None);
    }
}

impl Inner {
    /// Counts a step, which fails if a test requested it.
    pub(crate) fn step(&self) -> Result<(), RuntimeError> {
        let step = self.steps.taken.replace(self.steps.taken.get() + 1);
        if self.steps.fails.get() == Some(step) {
            return Err(RuntimeError::Injected(step));
        }
        Ok(())
    }
}
