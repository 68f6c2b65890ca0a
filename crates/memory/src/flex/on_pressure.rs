//! Registration of callbacks for requests that found no room.

use std::fmt;

use super::FlexAllocator;
use super::error::OutOfMemory;
use super::slots::Shared;
use crate::sync::{Arc, Weak};

/// A registered callback; see [`FlexAllocator::on_pressure`]. Dropping this leaves the callback in place.
pub struct PressureCallback {
    shared: Weak<Shared>,
    id: u64,
}

impl PressureCallback {
    /// Takes the callback back, and returns whether it was still registered. Afterwards it is not called any more, and
    /// no other thread is running it: this waits for threads that are inside a callback. From inside a callback it does
    /// not wait.
    pub fn remove(self) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.callbacks.remove(self.id))
    }
}

impl fmt::Debug for PressureCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureCallback").field("id", &self.id).finish_non_exhaustive()
    }
}

impl FlexAllocator {
    /// Registers a function to be called when memory has run out and the allocator's own remedies have failed, and when a
    /// budget of a tag is exceeded (see [`Budget`](super::Budget); the report then names it). It may
    /// free blocks, on this thread or another, and trim. The functions are called in the order of their registration,
    /// then the request is tried once more. If one of them allocates and finds no room either, the functions are not
    /// called again for that request. The function stays registered until [`PressureCallback::remove`].
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(4)))));
    /// let cache = Arc::new(Mutex::new(vec![allocator.allocate(Bytes::gib(3)).unwrap()]));
    /// let callback = allocator.on_pressure(move |_report| cache.lock().unwrap().clear());
    /// let block = allocator.allocate(Bytes::gib(2)).unwrap(); // the cache made room
    /// assert!(callback.remove());
    /// ```
    pub fn on_pressure(
        &self,
        callback: impl Fn(&OutOfMemory) + Send + Sync + 'static,
    ) -> PressureCallback {
        let id = self.shared.callbacks.push(Arc::new(callback));
        PressureCallback { shared: Arc::downgrade(&self.shared), id }
    }
}
