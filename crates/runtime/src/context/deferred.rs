//! Releases that wait until [`Context::machine`](super::Context::machine) no longer borrows the machine.

use std::cell::{RefCell, RefMut};

use cubeyard_device::machine::Machine;

use super::Inner;
use crate::error::RuntimeError;

type GiveBack = Box<dyn FnOnce(&Inner)>;

#[derive(Default)]
pub(super) struct Deferred(RefCell<Vec<GiveBack>>);

/// Performs the deferred releases when it is dropped.
pub(super) struct AfterLook<'c>(pub(super) &'c Inner);

impl Drop for AfterLook<'_> {
    fn drop(&mut self) {
        self.0.give_back_dropped();
    }
}

impl Inner {
    /// Borrows the machine to run or change it, unless [`Context::machine`](super::Context::machine) borrows it.
    pub(crate) fn machine_mut(&self) -> Result<RefMut<'_, Machine>, RuntimeError> {
        self.machine.try_borrow_mut().map_err(|_| RuntimeError::Looked)
    }

    /// Calls `act` now, or as soon as the machine is no longer borrowed.
    pub(crate) fn when_free(&self, act: impl FnOnce(&Inner) + 'static) {
        if self.machine.try_borrow_mut().is_ok() {
            act(self);
        } else {
            self.deferred.0.borrow_mut().push(Box::new(act));
        }
    }

    /// Performs the deferred releases, unless the machine is still borrowed.
    pub(super) fn give_back_dropped(&self) {
        while self.machine.try_borrow_mut().is_ok() {
            let next = self.deferred.0.borrow_mut().pop();
            let Some(act) = next else { return };
            act(self);
        }
    }
}
