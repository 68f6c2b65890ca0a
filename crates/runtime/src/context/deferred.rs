//! What is dropped while somebody looks at the machine, and is given back afterwards.

use std::cell::{RefCell, RefMut};
use std::fmt;

use cubeyard_device::machine::Machine;

use super::Inner;
use crate::error::RuntimeError;

/// Gives back what something held.
type GiveBack = Box<dyn FnOnce(&Inner)>;

/// What is to be given back.
#[derive(Default)]
pub(super) struct Deferred(RefCell<Vec<GiveBack>>);

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deferred").field(&self.0.borrow().len()).finish()
    }
}

/// Gives back what was dropped in a look at the machine, when it is dropped itself.
pub(super) struct AfterLook<'c>(pub(super) &'c Inner);

impl Drop for AfterLook<'_> {
    fn drop(&mut self) {
        self.0.give_back_dropped();
    }
}

impl Inner {
    /// The machine, to be run or changed, unless somebody looks at it.
    pub(crate) fn machine_mut(&self) -> Result<RefMut<'_, Machine>, RuntimeError> {
        self.machine.try_borrow_mut().map_err(|_| RuntimeError::Looked)
    }

    /// Does what needs the machine now, or as soon as nobody looks at it.
    pub(crate) fn when_free(&self, act: impl FnOnce(&Inner) + 'static) {
        if self.machine.try_borrow_mut().is_ok() {
            act(self);
        } else {
            self.deferred.0.borrow_mut().push(Box::new(act));
        }
    }

    /// Gives back what was dropped while the machine was looked at, unless it still is.
    pub(super) fn give_back_dropped(&self) {
        while self.machine.try_borrow_mut().is_ok() {
            let next = self.deferred.0.borrow_mut().pop();
            let Some(act) = next else { return };
            act(self);
        }
    }
}
