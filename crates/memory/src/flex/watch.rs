//! Subscriptions: functions of the caller that are called with every event of an allocator.

use std::fmt;

use super::FlexAllocator;
use super::event::Event;
use super::slots::{Shared, Slot, Slots};
use crate::sync::{Arc, Weak};

/// A subscription to the events of an allocator. Dropping it takes the subscriber back.
///
/// When the subscription has been dropped, the subscriber is not running and is not called any more; if another thread
/// is delivering events, the drop waits for it. A subscriber may drop its own subscription. It is then not called for
/// another event.
#[must_use = "a subscription that is dropped is taken back at once; `keep` leaves it as long as the allocator"]
pub struct Subscription {
    shared: Weak<Shared>,
    id: u64,
}

impl Subscription {
    /// Takes the subscriber back, as dropping the subscription does.
    pub fn unsubscribe(self) {}

    /// Leaves the subscriber in place as long as the allocator and its blocks exist.
    pub fn keep(mut self) {
        self.shared = Weak::new();
    }

    /// Returns whether the subscriber is still called: it has not panicked, and the allocator or a block exists.
    pub fn is_active(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.journal.has_subscriber(self.id))
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.journal.unsubscribe(self.id);
        }
    }
}

impl FlexAllocator {
    /// Registers a function that is called with every event from now on, until the subscription is dropped.
    ///
    /// - **Order.** Events arrive one at a time, in one order for all threads. It is the order in which they happened in
    ///   each region, so a place is freed before it is allocated again.
    /// - **Thread.** A call of the allocator delivers its events before it returns, on its own thread; if another thread
    ///   is delivering at that moment, that thread may deliver them. [`Event::thread`] names the thread of the call. A
    ///   call that the device or the streams make delivers nothing. Its events are delivered by the call that it is
    ///   part of.
    /// - **Locks.** No lock of the allocator is held. The function may read statistics, free and allocate. The events of
    ///   its own calls are delivered to all subscribers after the current event, so a function that allocates at every
    ///   allocation never ends. It must not wait for another thread that uses the allocator, since that thread waits
    ///   until the function returns.
    /// - **Panics.** A function that panics is not called again. The panic goes no further, and the allocator and the
    ///   other subscribers continue.
    ///
    /// A function that owns the allocator keeps it alive until the subscription is dropped.
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let log = Arc::clone(&seen);
    /// let subscription = allocator.subscribe(move |event| {
    ///     log.lock().unwrap().push((event.action.name(), event.requested));
    /// });
    /// drop(allocator.allocate(Bytes::new(1000)));
    /// subscription.unsubscribe();
    /// drop(allocator.allocate(Bytes::new(1000))); // not seen any more
    /// let size = Bytes::new(1000);
    /// assert_eq!(seen.lock().unwrap()[0], ("segment_alloc", Bytes::gib(12)));
    /// assert_eq!(seen.lock().unwrap()[1..], [("alloc", size), ("free_requested", size), ("free_completed", size)]);
    /// ```
    pub fn subscribe(&self, function: impl Fn(&Event) + Send + Sync + 'static) -> Subscription {
        let id = self.shared.journal.subscribe(Box::new(function));
        Subscription { shared: Arc::downgrade(&self.shared), id }
    }
}

impl Shared {
    /// Delivers the recorded events to the subscribers, unless this thread is inside a call to the device or the
    /// streams; the call that made it delivers them. No lock may be held.
    #[inline]
    pub(crate) fn deliver(&self) {
        if self.journal.is_watched() {
            self.deliver_watched();
        }
    }

    #[cold]
    fn deliver_watched(&self) {
        let slots = self.slots.get().and_then(Weak::upgrade);
        let commits = |slots: Arc<Slots>| slots.iter().any(|slot: &Arc<Slot>| slot.is_calling());
        if !self.is_calling() && !slots.is_some_and(commits) {
            self.journal.deliver();
        }
    }
}
