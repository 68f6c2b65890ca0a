//! Sequential code in simulated time: `async` blocks on our own executor.
//!
//! A task sleeps, calls components, and waits for signals that components or other tasks raise. It is resumed in the
//! order of the event queue, before anything else of its instant, so it is as deterministic as the rest. A signal is
//! raised once; waiting for it later takes no time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use crate::arena::{Arena, Key};
use crate::id::NodeId;
use crate::stop::{Waiter, Waiting};
use crate::{Span, Time};

/// Key of a signal; it stays unique after the signal is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(Key);

/// Interface of a task to the engine. Cheap to clone.
pub struct TaskHandle<M> {
    shared: Rc<Shared<M>>,
}

impl<M> Clone for TaskHandle<M> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

impl<M> fmt::Debug for TaskHandle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("now", &self.now()).finish_non_exhaustive()
    }
}

struct Shared<M> {
    now: Cell<Time>,
    /// Task that is being resumed.
    running: Cell<Key>,
    wishes: RefCell<VecDeque<Wish<M>>>,
    signals: RefCell<Arena<Signal>>,
}

/// A request of a task to the engine.
pub(crate) enum Wish<M> {
    Call { node: NodeId, message: M },
    Resume { task: Key, at: Time },
}

struct Signal {
    what: String,
    owner: Option<String>,
    raised: Option<Time>,
    waiting: Vec<Key>,
}

impl<M> TaskHandle<M> {
    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.shared.now.get()
    }

    /// Waits for a span of simulated time.
    pub fn sleep(&self, span: Span) -> impl Future<Output = ()> + use<M> {
        let (shared, until) = (Rc::clone(&self.shared), self.now() + span);
        let mut asked = false;
        poll_fn(move |_| {
            if shared.now.get() >= until {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut asked, true) {
                shared.wish(Wish::Resume { task: shared.running.get(), at: until });
            }
            Poll::Pending
        })
    }

    /// Calls a component at the current time.
    pub fn call(&self, node: NodeId, message: M) {
        self.shared.wish(Wish::Call { node, message });
    }

    /// Creates a signal. Its description `what` and the name of the `owner` that should raise it appear in a deadlock
    /// report.
    pub fn signal(&self, what: impl Into<String>, owner: Option<String>) -> SignalId {
        let signal = Signal { what: what.into(), owner, raised: None, waiting: Vec::new() };
        SignalId(self.shared.signals.borrow_mut().insert(signal))
    }

    /// Removes a signal that no task waits for. Afterwards it counts as raised at an unknown time: waiting for it takes
    /// no time, and raising or releasing it again has no effect.
    pub fn release(&self, signal: SignalId) {
        self.shared.signals.borrow_mut().remove(signal.0);
    }

    /// Raises a signal: tasks that wait for it resume in this instant.
    pub fn raise(&self, signal: SignalId) {
        let mut signals = self.shared.signals.borrow_mut();
        let Some(signal) = signals.get_mut(signal.0) else { return };
        let at = self.now();
        signal.raised.get_or_insert(at);
        for task in signal.waiting.drain(..) {
            self.shared.wish(Wish::Resume { task, at });
        }
    }

    /// Returns the time at which a signal was raised; `None` if it was not raised or has been released.
    pub fn raised(&self, signal: SignalId) -> Option<Time> {
        self.shared.signals.borrow().get(signal.0)?.raised
    }

    /// Waits until a signal is raised.
    pub fn wait(&self, signal: SignalId) -> impl Future<Output = ()> + use<M> {
        let shared = Rc::clone(&self.shared);
        poll_fn(move |_| {
            let (mut signals, task) = (shared.signals.borrow_mut(), shared.running.get());
            match signals.get_mut(signal.0) {
                Some(signal) if signal.raised.is_none() => {
                    if !signal.waiting.contains(&task) {
                        signal.waiting.push(task);
                    }
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
    }
}

impl<M> Shared<M> {
    fn wish(&self, wish: Wish<M>) {
        self.wishes.borrow_mut().push_back(wish);
    }
}

/// The tasks of an engine.
pub(crate) struct Tasks<M> {
    shared: Rc<Shared<M>>,
    list: Arena<Task>,
}

struct Task {
    name: String,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

impl<M> Default for Tasks<M> {
    fn default() -> Self {
        let shared = Shared {
            now: Cell::new(Time::ZERO),
            running: Cell::default(),
            wishes: RefCell::default(),
            signals: RefCell::default(),
        };
        Self { shared: Rc::new(shared), list: Arena::default() }
    }
}

impl<M> fmt::Debug for Tasks<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|task| &task.name)).finish()
    }
}

impl<M> Tasks<M> {
    pub(crate) fn handle(&self, now: Time) -> TaskHandle<M> {
        self.shared.now.set(now);
        TaskHandle { shared: Rc::clone(&self.shared) }
    }

    /// Returns the tasks that wait for a signal.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let signals = self.shared.signals.borrow();
        let waits = signals.iter().flat_map(|signal| {
            signal.waiting.iter().filter_map(|&task| {
                let who = Waiter::Task(self.list.get(task)?.name.clone());
                Some(Waiting { who, what: signal.what.clone(), owner: signal.owner.clone() })
            })
        });
        waits.collect()
    }

    /// Adds a task, to be resumed now.
    pub(crate) fn spawn<F>(
        &mut self,
        now: Time,
        name: impl Into<String>,
        task: impl FnOnce(TaskHandle<M>) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let future = Box::pin(task(self.handle(now)));
        let task = self.list.insert(Task { name: name.into(), future });
        self.shared.wish(Wish::Resume { task, at: now });
    }

    /// Resumes a task until it waits again.
    pub(crate) fn resume(&mut self, now: Time, key: Key) {
        self.shared.now.set(now);
        self.shared.running.set(key);
        // The waker is never called: tasks are resumed by events.
        let mut context = PollContext::from_waker(Waker::noop());
        if let Some(task) = self.list.get_mut(key)
            && task.future.as_mut().poll(&mut context).is_ready()
        {
            self.list.remove(key);
        }
    }

    pub(crate) fn next_wish(&mut self) -> Option<Wish<M>> {
        self.shared.wishes.borrow_mut().pop_front()
    }
}
