//! Sequential code in simulated time: `async` blocks on an executor of our own.
//!
//! A task sleeps, calls components, and waits for signals that components or other tasks raise. It is
//! resumed in the order of the queue, before anything else of its instant, so it is as deterministic as
//! the rest. A signal can only be raised once, and whoever waits for it later does not wait.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};

use crate::id::NodeId;
use crate::stop::{Waiter, Waiting};
use crate::{Span, Time};

/// The number of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignalId(u32);

/// What a task can do. Cheap to clone.
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
    /// The task that is being resumed.
    running: Cell<u32>,
    wishes: RefCell<VecDeque<Wish<M>>>,
    signals: RefCell<Vec<Signal>>,
    free_signals: RefCell<Vec<SignalId>>,
}

/// A request of a task to the engine.
pub(crate) enum Wish<M> {
    Sleep { task: u32, until: Time },
    Call { node: NodeId, message: M },
    Resume { task: u32 },
}

#[derive(Default)]
struct Signal {
    what: String,
    owner: Option<String>,
    raised: Option<Time>,
    waiting: Vec<u32>,
}

impl<M> TaskHandle<M> {
    /// The present.
    pub fn now(&self) -> Time {
        self.shared.now.get()
    }

    /// Lets time pass.
    pub fn sleep(&self, span: Span) -> impl Future<Output = ()> + use<M> {
        Sleep { shared: Rc::clone(&self.shared), until: self.now() + span, asked: false }
    }

    /// Calls a component, now.
    pub fn call(&self, node: NodeId, message: M) {
        self.shared.wishes.borrow_mut().push_back(Wish::Call { node, message });
    }

    /// A signal that somebody will raise; `what` it says, and who is to raise it, are for the report of
    /// a deadlock.
    pub fn signal(&self, what: impl Into<String>, owner: Option<String>) -> SignalId {
        let mut signals = self.shared.signals.borrow_mut();
        let signal = Signal { what: what.into(), owner, ..Signal::default() };
        if let Some(free) = self.shared.free_signals.borrow_mut().pop() {
            signals[free.0 as usize] = signal;
            return free;
        }
        signals.push(signal);
        SignalId(u32::try_from(signals.len() - 1).expect("fewer than 2³² signals"))
    }

    /// Gives a signal back that nobody waits for or asks about any more; its number is used again.
    pub fn release(&self, signal: SignalId) {
        self.shared.free_signals.borrow_mut().push(signal);
    }

    /// Raises a signal: whoever waits for it goes on, in this instant.
    pub fn raise(&self, signal: SignalId) {
        let mut signals = self.shared.signals.borrow_mut();
        let signal = &mut signals[signal.0 as usize];
        signal.raised.get_or_insert(self.now());
        let mut wishes = self.shared.wishes.borrow_mut();
        wishes.extend(signal.waiting.drain(..).map(|task| Wish::Resume { task }));
    }

    /// When a signal was raised, if it was.
    pub fn raised(&self, signal: SignalId) -> Option<Time> {
        self.shared.signals.borrow()[signal.0 as usize].raised
    }

    /// Waits until a signal is raised.
    pub fn wait(&self, signal: SignalId) -> impl Future<Output = ()> + use<M> {
        WaitFor { shared: Rc::clone(&self.shared), signal }
    }
}

struct Sleep<M> {
    shared: Rc<Shared<M>>,
    until: Time,
    asked: bool,
}

impl<M> Future for Sleep<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<()> {
        if self.shared.now.get() >= self.until {
            return Poll::Ready(());
        }
        if !self.asked {
            self.asked = true;
            let wish = Wish::Sleep { task: self.shared.running.get(), until: self.until };
            self.shared.wishes.borrow_mut().push_back(wish);
        }
        Poll::Pending
    }
}

struct WaitFor<M> {
    shared: Rc<Shared<M>>,
    signal: SignalId,
}

impl<M> Future for WaitFor<M> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<()> {
        let mut signals = self.shared.signals.borrow_mut();
        let signal = &mut signals[self.signal.0 as usize];
        if signal.raised.is_some() {
            return Poll::Ready(());
        }
        let task = self.shared.running.get();
        if !signal.waiting.contains(&task) {
            signal.waiting.push(task);
        }
        Poll::Pending
    }
}

/// The tasks of an engine.
pub(crate) struct Tasks<M> {
    shared: Rc<Shared<M>>,
    list: Vec<Task>,
    /// The places of those that have ended.
    free: Vec<u32>,
}

struct Task {
    name: String,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl<M> Default for Tasks<M> {
    fn default() -> Self {
        let shared = Shared {
            now: Cell::new(Time::ZERO),
            running: Cell::new(0),
            wishes: RefCell::default(),
            signals: RefCell::default(),
            free_signals: RefCell::default(),
        };
        Self { shared: Rc::new(shared), list: Vec::new(), free: Vec::new() }
    }
}

impl<M> fmt::Debug for Tasks<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|task| &task.name)).finish()
    }
}

impl<M> Tasks<M> {
    pub(crate) fn handle(&self) -> TaskHandle<M> {
        TaskHandle { shared: Rc::clone(&self.shared) }
    }

    /// The tasks that wait for a signal.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let signals = self.shared.signals.borrow();
        let waits = signals.iter().flat_map(|signal| {
            signal.waiting.iter().map(move |&task| {
                let who = Waiter::Task(self.list[task as usize].name.clone());
                Waiting { who, what: signal.what.clone(), owner: signal.owner.clone() }
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
        let free = self.free.pop();
        let next = || u32::try_from(self.list.len()).expect("fewer than 2³² tasks");
        let number = free.unwrap_or_else(next);
        self.shared.now.set(now);
        let future = Box::pin(task(self.handle()));
        let task = Task { name: name.into(), future: Some(future) };
        match self.list.get_mut(number as usize) {
            Some(place) => *place = task,
            None => self.list.push(task),
        }
        self.shared.wishes.borrow_mut().push_back(Wish::Resume { task: number });
    }

    pub(crate) fn raise(&mut self, now: Time, signal: SignalId) {
        self.shared.now.set(now);
        self.handle().raise(signal);
    }

    /// Lets a task go on until it waits again.
    pub(crate) fn resume(&mut self, now: Time, task: u32) {
        self.shared.now.set(now);
        self.shared.running.set(task);
        let place = &mut self.list[task as usize].future;
        if let Some(future) = place {
            // Nobody calls the waker: tasks are resumed by events.
            let mut context = PollContext::from_waker(Waker::noop());
            if future.as_mut().poll(&mut context).is_ready() {
                *place = None;
                self.free.push(task);
            }
        }
    }

    pub(crate) fn next_wish(&mut self) -> Option<Wish<M>> {
        self.shared.wishes.borrow_mut().pop_front()
    }
}
