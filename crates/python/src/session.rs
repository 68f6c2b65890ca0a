//! Context with all its objects, usable by any Python thread, one thread at a time.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use cubeyard_runtime::Context;
use cubeyard_tl::launch::Launcher;
use pyo3::prelude::*;

use crate::error::{self, Kind};
use crate::kernel::table::Kernels;
use crate::{forks, signals};

/// Number of sessions created so far.
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Context, the launcher of its kernels, and the objects that Python holds by [`Owned`].
pub(crate) struct Session {
    pub(crate) context: Context,
    pub(crate) kernels: Kernels,
    pub(crate) launcher: Rc<Launcher>,
    /// Function called before objects are dropped.
    before_drop: Option<Box<dyn Fn()>>,
    objects: BTreeMap<u64, Box<dyn Any>>,
    last: u64,
    /// Id of the session, unique in the process.
    id: u64,
}

/// Session that may move to another thread.
struct Movable(Session);

// SAFETY: a context, its tensors, launchers and streams share reference counts that are not atomic, so only one thread
// at a time may access them. They are reached only through a session. The session is moved out of its lock for a call
// and moved back afterwards; objects that Python holds stay inside (`Owned` is a number), and no closure of a call
// returns one. None of them refers to thread-local storage. A session created by `Shared::of` shares counts with its
// creator, which waits in `end` for all calls before it continues.
#[expect(unsafe_code, reason = "the safety comment above")]
unsafe impl Send for Movable {}

/// Session shared by Python objects.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    /// Id of the session, unique in the process.
    id: u64,
    state: Mutex<State>,
    /// Notified when the session is put back.
    back: Condvar,
}

#[derive(Default)]
struct State {
    /// Session; `None` while a call uses it, or after it was lost in a panic.
    session: Option<Box<Movable>>,
    /// Thread whose call uses the session, and the number of forks when the call began.
    user: Option<(ThreadId, u64)>,
    /// Objects that were dropped while a call used the session.
    dropped: Vec<u64>,
    /// Whether the session has ended.
    is_ended: bool,
}

/// Object of a session, held by Python. Dropping it drops the object: at once, or after the call that
/// is using the session.
pub(crate) struct Owned<T> {
    pub(crate) shared: Shared,
    key: u64,
    of: PhantomData<fn() -> T>,
}

impl Session {
    /// Registers an object for Python. `shared` is the handle of this session.
    pub(crate) fn keep<T: 'static>(&mut self, shared: &Shared, object: T) -> Owned<T> {
        self.last += 1;
        self.objects.insert(self.last, Box::new(object));
        Owned { shared: shared.clone(), key: self.last, of: PhantomData }
    }

    /// Returns an object that Python holds.
    pub(crate) fn get<T: 'static>(&self, owned: &Owned<T>) -> PyResult<&T> {
        let own = owned.shared.0.id == self.id;
        let object = own.then(|| self.objects.get(&owned.key)).flatten();
        object.and_then(|object| object.downcast_ref()).ok_or_else(foreign)
    }

    /// Returns a mutable reference to an object that Python holds.
    pub(crate) fn get_mut<T: 'static>(&mut self, owned: &Owned<T>) -> PyResult<&mut T> {
        let own = owned.shared.0.id == self.id;
        let object = own.then(|| self.objects.get_mut(&owned.key)).flatten();
        object.and_then(|object| object.downcast_mut()).ok_or_else(foreign)
    }

    /// Drops the objects with the given keys; `None` stands for all.
    fn drop_objects(&mut self, keys: Option<&[u64]>) {
        if let Some(before_drop) = &self.before_drop {
            before_drop();
        }
        match keys {
            Some(keys) => keys.iter().for_each(|key| drop(self.objects.remove(key))),
            None => self.objects.clear(),
        }
    }

    /// Returns the number of objects that Python holds.
    pub(crate) fn objects(&self) -> usize {
        self.objects.len()
    }
}

impl Shared {
    /// Creates a session from a context.
    ///
    /// From this call until [`end`](Self::end) has returned, a caller that keeps a clone must not access the context,
    /// the launcher, or anything that shares their reference counts. The only exception is `before_drop`, which is
    /// called before objects of the session are dropped.
    pub(crate) fn of(
        context: Context,
        launcher: Rc<Launcher>,
        before_drop: Option<Box<dyn Fn()>>,
    ) -> Self {
        let id = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let (kernels, objects) = (Kernels::default(), BTreeMap::new());
        let session = Session { context, launcher, kernels, before_drop, objects, last: 0, id };
        let state = State { session: Some(Box::new(Movable(session))), ..State::default() };
        Self(Arc::new(Inner { id, state: Mutex::new(state), back: Condvar::new() }))
    }

    /// Drops the session with all its objects, after the calls that are using it; every later call
    /// fails with a `ClosedError`.
    pub(crate) fn end(&self, py: Python<'_>) -> PyResult<()> {
        let mut session = self.enter(py)?;
        self.state().is_ended = true;
        session.0.drop_objects(None);
        drop(session);
        self.state().user = None;
        self.0.back.notify_all();
        Ok(())
    }

    /// Calls `act` with the session, for work that takes microseconds. Waits for calls of other threads.
    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Session) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut session = self.enter(py)?;
        let done = catch_unwind(AssertUnwindSafe(|| act(&mut session.0)));
        self.leave(session, done)
    }

    /// Calls `act` with the session, without the GIL; Ctrl-C interrupts a simulation in `act`.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Session) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let mut session = self.enter(py)?;
        let movable = &mut session;
        let call = move || act(&mut movable.as_mut().0);
        let done = signals::long(py, || catch_unwind(AssertUnwindSafe(call)));
        self.leave(session, done)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, py: Python<'_>) -> PyResult<Box<Movable>> {
        if let Some(session) = self.state().take() {
            return Ok(session);
        }
        py.detach(|| self.wait())
    }

    /// Waits for the session without the GIL, because the call that is using it may need the GIL.
    fn wait(&self) -> PyResult<Box<Movable>> {
        let mut state = self.state();
        loop {
            if let Some(session) = state.take() {
                return Ok(session);
            }
            match state.user {
                None if state.is_ended => {
                    let what = "the context belongs to a bench that has ended";
                    return Err(Kind::Closed.error(what));
                }
                None => {
                    return Err(Kind::Internal
                        .error("the context was lost by an earlier mistake of cubeyard"));
                }
                Some((_, forks)) if forks != forks::count() => {
                    let what = "the context was in use by another thread when the process was forked: \
                        make one after the fork";
                    return Err(Kind::Busy.error(what));
                }
                Some((user, _)) if user == thread::current().id() => {
                    let what =
                        "the context is in use by the kernel or call that this call is made from";
                    return Err(Kind::Busy.error(what));
                }
                Some(_) => state = self.0.back.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Puts the session back, after dropping the objects released meanwhile. After a panic its state is
    /// unknown, so it is leaked.
    fn leave<T>(&self, session: Box<Movable>, done: thread::Result<PyResult<T>>) -> PyResult<T> {
        match done {
            Ok(done) => {
                self.put_back(session);
                done
            }
            Err(panic) => {
                std::mem::forget(session);
                self.state().user = None;
                self.0.back.notify_all();
                Err(error::internal(&*panic))
            }
        }
    }

    fn put_back(&self, mut session: Box<Movable>) {
        loop {
            let mut state = self.state();
            if state.dropped.is_empty() {
                (state.session, state.user) = (Some(session), None);
                self.0.back.notify_one();
                return;
            }
            let dropped = std::mem::take(&mut state.dropped);
            drop(state);
            // Dropping a tensor runs the machine, and may drop further objects.
            session.0.drop_objects(Some(&dropped));
        }
    }
}

fn foreign() -> PyErr {
    Kind::Input.error("the object belongs to another context: expected one of this context")
}

impl State {
    fn take(&mut self) -> Option<Box<Movable>> {
        let session = self.session.take()?;
        self.user = Some((thread::current().id(), forks::count()));
        Some(session)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.dropped.push(self.key);
        let session = state.take();
        drop(state);
        if let Some(session) = session {
            self.shared.put_back(session);
        }
    }
}
