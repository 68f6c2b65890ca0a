//! Kernels of a session.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use cubeyard_tl as tl;
use pyo3::prelude::*;

use super::driver::{self, Function};
use super::lines::Lines;

/// Function that a kernel calls; set only during a launch.
pub(super) type Slot = Rc<RefCell<Option<Rc<Function>>>>;

/// Kernels of a session by key.
///
/// They hold no Python objects between launches, so a context keeps nothing of a script alive.
#[derive(Default)]
pub(crate) struct Kernels(BTreeMap<u64, Kept>);

struct Kept {
    key: Weak<u64>,
    kernel: tl::kernel::Kernel,
    slot: Slot,
    lines: Rc<Lines>,
}

impl Kernels {
    /// Returns the kernel of a key, and drops the kernels whose keys no longer exist.
    pub(super) fn get(
        &mut self,
        key: &Arc<u64>,
        name: &str,
        live: bool,
    ) -> (tl::kernel::Kernel, Slot, Rc<Lines>) {
        self.forget(key);
        let kept = self.0.entry(**key).or_insert_with(|| Kept::new(key, name, live));
        (kept.kernel.clone(), Rc::clone(&kept.slot), Rc::clone(&kept.lines))
    }

    /// Returns the Rust kernel of a key.
    pub(super) fn rust(
        &mut self,
        key: &Arc<u64>,
        make: impl FnOnce() -> PyResult<tl::kernel::Kernel>,
    ) -> PyResult<tl::kernel::Kernel> {
        if let Some(kept) = self.0.get(key) {
            return Ok(kept.kernel.clone());
        }
        self.forget(key);
        let (kernel, key) = (make()?, Arc::clone(key));
        let (slot, lines) = (Slot::default(), Rc::default());
        let kept = Kept { key: Arc::downgrade(&key), kernel: kernel.clone(), slot, lines };
        self.0.insert(*key, kept);
        Ok(kernel)
    }

    /// Drops the kernels whose keys no longer exist, before the kernel of a new key is added.
    fn forget(&mut self, key: &Arc<u64>) {
        if !self.0.contains_key(key) {
            self.0.retain(|_, kept| kept.key.strong_count() > 0);
        }
    }
}

impl Kept {
    fn new(key: &Arc<u64>, name: &str, live: bool) -> Self {
        let slot = Slot::default();
        let calls = Rc::clone(&slot);
        let kernel = tl::kernel::Kernel::new(name, move |tl, args| {
            let function = calls.borrow().clone();
            driver::start(function.expect("a kernel starts within its launch"), tl, args)
        });
        let kernel = if live { kernel.live() } else { kernel };
        Self { key: Arc::downgrade(key), kernel, slot, lines: Rc::default() }
    }
}
