//! A context on its own thread, which any thread can drive.

use std::any::Any;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use crate::context::{Context, ContextConfig};

/// A [`Context`], or a `T` that holds one, on its own thread.
///
/// A context belongs to one thread, as do its tensors and streams. This handle is `Send` and `Sync`: any thread can
/// send closures, which run one at a time in the order of arrival. Tensors that outlive a call are kept in `T`.
/// Dropping the handle drops `T` on its thread and joins the thread.
///
/// ```
/// use cubeyard_runtime::dtype::DType;
/// use cubeyard_runtime::placement::Placement;
/// use cubeyard_runtime::{Context, ContextConfig, ContextThread, Tensor};
///
/// struct Session { tensors: Vec<Tensor>, context: Context }
///
/// let session = ContextThread::with(|| Session {
///     tensors: Vec::new(),
///     context: Context::new(ContextConfig { data: true, ..ContextConfig::default() }),
/// })?;
/// std::thread::scope(|scope| {
///     for value in [1.0, 2.0] {
///         let deploy = move |session: &mut Session| {
///             let tensor = session.context.full(&[8], DType::F32, value)?;
///             session.tensors.push(tensor.to(&Placement::default())?);
///             Ok::<(), cubeyard_runtime::RuntimeError>(())
///         };
///         let session = &session;
///         scope.spawn(move || session.call(deploy).unwrap().unwrap());
///     }
/// });
/// assert_eq!(session.call(|session| session.tensors.len())?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ContextThread<T = Context> {
    /// Channel to the thread; present until the handle is dropped.
    calls: Option<Sender<Call<T>>>,
    thread: Option<JoinHandle<()>>,
}

type Call<T> = Box<dyn FnOnce(&mut T) -> ControlFlow<()> + Send>;

/// Reason why a call of a [`ContextThread`] has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContextThreadError {
    /// The closure panicked with this message. The context is in an unknown state: it is leaked, and its thread ends.
    #[error("the call panicked: {0}")]
    Panicked(String),
    /// The thread has ended after a panic. Create another context.
    #[error("the context's thread has ended after a panic")]
    Ended,
    /// The call was made inside another call, and would wait for itself.
    #[error("a call inside another call of the same context would wait for itself")]
    Nested,
}

impl ContextThread {
    /// Creates a context on a new thread.
    pub fn new(config: ContextConfig) -> io::Result<Self> {
        Self::with(move || Context::new(config))
    }
}

impl<T: 'static> ContextThread<T> {
    /// Runs `make` on a new thread, where its value stays.
    pub fn with(make: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (calls, received) = mpsc::channel();
        let thread = thread::Builder::new().name("cubeyard-context".to_owned());
        let thread = thread.spawn(move || serve(make(), received))?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Runs a closure on the thread and returns its result, after all calls that arrived earlier.
    pub fn call<R: Send + 'static>(
        &self,
        act: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, ContextThreadError> {
        if self.is_current() {
            return Err(ContextThreadError::Nested);
        }
        let (answer, answered) = mpsc::channel();
        let call = move |value: &mut T| {
            let result = catch_unwind(AssertUnwindSafe(|| act(value)));
            let flow =
                if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            answer.send(result).expect("the caller waits for it");
            flow
        };
        let calls = self.calls.as_ref().expect("present until the handle is dropped");
        calls.send(Box::new(call)).map_err(|_| ContextThreadError::Ended)?;
        match answered.recv() {
            Ok(result) => result.map_err(|panic| ContextThreadError::Panicked(message(&*panic))),
            Err(_) => Err(ContextThreadError::Ended),
        }
    }
}

impl<T> ContextThread<T> {
    fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }
}

impl<T> Drop for ContextThread<T> {
    fn drop(&mut self) {
        self.calls = None;
        // The thread cannot wait for itself, if `T` owns a handle of it.
        if !self.is_current()
            && let Some(thread) = self.thread.take()
        {
            // A panic on the thread was reported to the caller, or on standard error if it occurred while the value was
            // dropped.
            let _ = thread.join();
        }
    }
}

fn serve<T>(mut value: T, calls: Receiver<Call<T>>) {
    for call in calls {
        if call(&mut value).is_break() {
            // Dropping a context runs its machine, whose state is unknown after a panic.
            std::mem::forget(value);
            return;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "no message".to_owned())
}
