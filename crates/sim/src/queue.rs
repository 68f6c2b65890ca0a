//! Pending events, taken out in the order of time.
//!
//! Events of one instant come out by their *rank*, and events of one instant and one rank in the order in
//! which they were put in. [`Wheel`] is the queue of the engine; [`Heap`] is the plain one that it must
//! equal, event by event.

mod heap;
mod wheel;

pub use heap::Heap;
pub use wheel::Wheel;

use crate::Time;

/// A queue of events.
///
/// ```
/// use cubeyard_sim::Time;
/// use cubeyard_sim::queue::{EventQueue, Wheel};
///
/// let mut queue = Wheel::default();
/// queue.push(Time::from_ps(20), 0, "late");
/// queue.push(Time::from_ps(10), 7, "early, but of a higher rank");
/// queue.push(Time::from_ps(10), 3, "early");
/// let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|entry| entry.event).collect();
/// assert_eq!(order, ["early", "early, but of a higher rank", "late"]);
/// ```
pub trait EventQueue<E> {
    /// Puts an event in. It must not lie before the event taken out last, nor before a
    /// deadline that was waited for in vain; an event of the same instant
    /// may have a lower rank, and then comes next.
    fn push(&mut self, time: Time, rank: u32, event: E);

    /// Takes the next event out, if it is due by `deadline`.
    fn pop_until(&mut self, deadline: Time) -> Option<Entry<E>>;

    /// Takes the next event out.
    fn pop(&mut self) -> Option<Entry<E>> {
        self.pop_until(Time::NEVER)
    }

    /// When the next event is due.
    fn next_time(&self) -> Option<Time>;
}

/// An event with its place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<E> {
    /// When it is due.
    pub time: Time,
    /// Its place among the events of one instant.
    pub rank: u32,
    /// What is due.
    pub event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u32) {
        (self.time, self.rank)
    }
}
