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

use crate::component::Component;
use crate::engine::{Engine, Event};
use crate::id::NodeId;
use crate::observer::Observer;
use crate::queue::EventQueue;
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

enum Wish<M> {
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
    fn handle(&self) -> TaskHandle<M> {
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
}

impl<C: Component, O: Observer<C::Message>> Engine<C, O> {
    /// Starts a task, now. It runs when the engine does.
    pub fn spawn<F>(
        &mut self,
        name: impl Into<String>,
        task: impl FnOnce(TaskHandle<C::Message>) -> F,
    ) where
        F: Future<Output = ()> + 'static,
    {
        let free = self.tasks.free.pop();
        let next = || u32::try_from(self.tasks.list.len()).expect("fewer than 2³² tasks");
        let number = free.unwrap_or_else(next);
        self.tasks.shared.now.set(self.now);
        let future = Box::pin(task(self.tasks.handle()));
        let task = Task { name: name.into(), future: Some(future) };
        match self.tasks.list.get_mut(number as usize) {
            Some(place) => *place = task,
            None => self.tasks.list.push(task),
        }
        self.tasks.shared.wishes.borrow_mut().push_back(Wish::Resume { task: number });
        self.settle_tasks();
    }

    /// What tasks can do, for code that drives the engine.
    pub fn tasks(&self) -> TaskHandle<C::Message> {
        self.tasks.handle()
    }

    pub(crate) fn raise(&mut self, signal: SignalId) {
        self.tasks.shared.now.set(self.now);
        self.tasks.handle().raise(signal);
        self.settle_tasks();
    }

    /// Lets a task go on until it waits again.
    pub(crate) fn resume(&mut self, task: u32) {
        self.tasks.shared.now.set(self.now);
        self.tasks.shared.running.set(task);
        let place = &mut self.tasks.list[task as usize].future;
        if let Some(future) = place {
            // Nobody calls the waker: tasks are resumed by events.
            let mut context = PollContext::from_waker(Waker::noop());
            if future.as_mut().poll(&mut context).is_ready() {
                *place = None;
                self.tasks.free.push(task);
            }
        }
        self.settle_tasks();
    }

    /// Carries out what tasks wish for.
    pub(crate) fn settle_tasks(&mut self) {
        loop {
            let wish = self.tasks.shared.wishes.borrow_mut().pop_front();
            match wish {
                None => return,
                Some(Wish::Sleep { task, until }) => {
                    self.queue.push(until, 0, Event::Task { task });
                }
                Some(Wish::Resume { task }) => self.queue.push(self.now, 0, Event::Task { task }),
                Some(Wish::Call { node, message }) => self.call(node, message),
            }
        }
    }
}
