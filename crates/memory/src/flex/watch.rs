//! Subscribers: functions of the caller that are called with every event of an allocator.
//!
//! An event is recorded where it happens, under the lock of its region, and is put into a queue. The queue has one order
//! for all threads. A call of the allocator delivers the queue when it has released its locks, before it returns. One
//! thread delivers at a time; a thread that finds another one delivering waits for it. So the events of a call have been
//! delivered when the call returns: by its own thread, or by another thread that delivered at that moment.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::history::{Action, Journal};
use super::region::Region;
use super::slots::{Shared, Slot, Slots};
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::sync::{Arc, AtomicBool, Ordering, Weak};

/// One event of an allocator, as subscribers receive it. See [`FlexAllocator::subscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Number in the order of all events. Consecutive events have consecutive numbers as long as there is a subscriber.
    pub number: u64,
    /// Kind of the event.
    pub action: Action,
    /// Address of the block or of the part of a region; `None` for events without one.
    pub address: Option<VirtualAddress>,
    /// The same address in the flat address space of snapshots; 0 for events without an address.
    pub flat: u64,
    /// New address of a block that has moved; `None` for other events.
    pub target: Option<VirtualAddress>,
    /// The new address in the flat address space; 0 for other events.
    pub target_flat: u64,
    /// Length of the block, rounded up to the granule, or of the part of a region.
    pub size: Bytes,
    /// Number of bytes requested for the block; equal to `size` for parts of regions.
    pub requested: Bytes,
    /// Free memory of the device, for [`Action::OutOfMemory`]; zero for other events.
    pub device_free: Bytes,
    /// Stream of the block; 0 for events about regions.
    pub stream: u32,
    /// Call site of the block's allocation; 0 if unknown.
    pub site: u32,
    /// Number of the thread whose call caused the event. Threads are numbered in the order of their first call.
    pub thread: usize,
    /// Time of the event in microseconds, from the allocator's clock; without a clock, the event's number.
    pub time_us: u64,
}

impl Event {
    /// Creates an event without an address.
    pub(crate) fn new(action: Action, size: Bytes, stream: u32) -> Self {
        Self {
            number: 0,
            action,
            address: None,
            flat: 0,
            target: None,
            target_flat: 0,
            size,
            requested: size,
            device_free: Bytes::ZERO,
            stream,
            site: 0,
            thread: 0,
            time_us: 0,
        }
    }

    /// Creates an event about a part of a region.
    pub(crate) fn about(action: Action, region: &Region, (offset, size): (Bytes, Bytes)) -> Self {
        let (address, flat) = (Some(region.address(offset)), region.base + offset.get());
        Self { address, flat, ..Self::new(action, size, 0) }
    }
}

/// A subscriber of an allocator.
pub(crate) struct Subscriber {
    pub(crate) id: u64,
    /// Number of the first event for this subscriber.
    pub(crate) from: u64,
    /// Whether the subscriber was taken back or has panicked.
    pub(crate) gone: AtomicBool,
    pub(crate) function: Box<dyn Fn(&Event) + Send + Sync>,
}

impl Subscriber {
    fn call(&self, event: &Event) {
        if event.number < self.from || self.gone.load(Ordering::Acquire) {
            return;
        }
        // The state of the function is not used after a panic.
        if catch_unwind(AssertUnwindSafe(|| (self.function)(event))).is_err() {
            self.gone.store(true, Ordering::Release);
        }
    }
}

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

impl Journal {
    /// Passes all queued events to the subscribers, and the events that the subscribers cause. A thread that is already
    /// delivering leaves its events to that delivery.
    fn deliver(&self) {
        let Some(_turn) = self.delivery.take() else { return };
        while let Some((events, subscribers)) = self.take_queue() {
            for event in &events {
                subscribers.iter().for_each(|subscriber| subscriber.call(event));
            }
            drop(self.remove_subscribers(|subscriber| subscriber.gone.load(Ordering::Acquire)));
        }
    }

    fn unsubscribe(&self, id: u64) {
        let removed = self.remove_subscribers(|subscriber| subscriber.id == id);
        // The function may be running on another thread, which has copied the list of subscribers.
        drop(self.delivery.take());
        drop(removed);
    }
}
