//! Policies of a replay: from the core, and written in Python.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use cubeyard_cli::{Input, processor_clock};
use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{Allocate, Trace};
use cubeyard_replay::{Kind as PolicyKind, Make, ReplayPolicy, Row, Target};
use pyo3::prelude::*;

use super::trace::RecordedTrace;
use super::worker::{self, Told};
use crate::error::{self, Kind};

/// Policy to replay under.
pub(crate) enum Chosen {
    Native(&'static ReplayPolicy),
    /// Python class whose instances are targets.
    Python(ReplayPolicy, Py<PyAny>),
}

/// Returns the policy with a name, or the policy of a class.
pub(crate) fn choose(given: &Bound<'_, PyAny>) -> PyResult<Chosen> {
    if let Ok(name) = given.extract::<String>() {
        let found = cubeyard_replay::policy(&name);
        return found
            .map(Chosen::Native)
            .map_err(|error| Kind::Input.error(format!("policies: {error}")));
    }
    let name: String = given.getattr("name")?.extract()?;
    let policy = ReplayPolicy {
        name: permanent(&name),
        summary: "written in Python",
        kind: PolicyKind::Online,
        make: Make::Front,
    };
    Ok(Chosen::Python(policy, given.clone().unbind()))
}

/// Returns a name with static lifetime, which reports require; it is never freed, but there are few names.
fn permanent(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}

impl Chosen {
    /// Replays a trace under the policy.
    pub(crate) fn replay(
        &self,
        py: Python<'_>,
        input: &Arc<Input>,
        told: &mut Told<'_>,
    ) -> PyResult<Row> {
        match self {
            Self::Native(policy) => {
                let (policy, input) = (*policy, Arc::clone(input));
                worker::run(py, told, move |ticket| {
                    let progress = &mut |steps| ticket.advance(steps);
                    policy.replay(&input.trace, &mut processor_clock(), progress)
                })
            }
            Self::Python(policy, class) => replay_in_python(py, policy, class, input, told),
        }
    }
}

/// Replays a trace on this thread, with targets written in Python.
fn replay_in_python(
    py: Python<'_>,
    policy: &ReplayPolicy,
    class: &Py<PyAny>,
    input: &Arc<Input>,
    told: &mut Told<'_>,
) -> PyResult<Row> {
    let raised = Raised::default();
    let trace = Py::new(py, RecordedTrace(Arc::clone(input)))?;
    let make = maker(|_| {
        let target = raised.keep(class.call1(py, (&trace,)));
        Box::new(PythonTarget { target, raised: raised.clone(), tokens: Vec::new() })
    });
    let progress = &mut |steps| raised.stop_on(py.check_signals().and(told.tell(steps)));
    let replay = || policy.replay_over(&make, &input.trace, &mut processor_clock(), progress);
    let row = catch_unwind(AssertUnwindSafe(replay));
    match (raised.take(), row) {
        (Some(raised), _) => Err(raised),
        (None, Ok(row)) => Ok(row),
        (None, Err(panic)) => Err(error::internal(&*panic)),
    }
}

/// Returns a function unchanged; its type could not be inferred otherwise.
fn maker<F: for<'a> Fn(&'a Trace) -> Box<dyn Target + 'a>>(make: F) -> F {
    make
}

/// First exception raised by a policy.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep<T>(&self, done: PyResult<T>) -> Option<T> {
        done.map_err(|error| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        })
        .ok()
    }

    /// Ends the replay on an exception. No panic hook is called, because this is not a panic.
    fn stop_on<T>(&self, done: PyResult<T>) -> T {
        self.keep(done).unwrap_or_else(|| resume_unwind(Box::new("a policy raised an exception")))
    }
}

/// Instance of a policy written in Python.
struct PythonTarget {
    target: Option<Py<PyAny>>,
    raised: Raised,
    /// Tokens of the policy, which may be arbitrary objects, indexed by our tokens.
    tokens: Vec<Option<Py<PyAny>>>,
}

impl PythonTarget {
    fn call<T>(&self, act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<T> {
        let none = || Kind::Internal.error("a policy was used before it was created");
        Python::attach(|py| act(self.target.as_ref().ok_or_else(none)?.bind(py)))
    }
}

impl Target for PythonTarget {
    /// Allocates a block. A policy refuses a request with an `OutOfMemory`, whose text becomes the failure.
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String> {
        let Allocate { size, stream, site, time_us, .. } = *request;
        let answer = self.call(|target| {
            let arguments = (size.get(), stream, site, time_us);
            Ok(target.call_method1("allocate", arguments)?.unbind())
        });
        match answer {
            Ok(token) => {
                self.tokens.push(Some(token));
                Ok(self.tokens.len() as u64 - 1)
            }
            Err(error) if is_refusal(&error) => Err(error.to_string()),
            Err(error) => self.raised.stop_on(Err(error)),
        }
    }

    fn free(&mut self, token: u64) {
        let place = usize::try_from(token).expect("a token comes from `allocate`");
        let token = self.tokens[place].take();
        let freed = self.call(|target| target.call_method1("free", (token,)).map(drop));
        self.raised.stop_on(freed);
    }

    fn reserved(&self) -> Bytes {
        let reserved = self.call(|target| {
            let answer = target.call_method0("reserved")?;
            answer.extract().map_err(|_| {
                Kind::Input
                    .error(format!("reserved() returned {answer}: expected a number of bytes"))
            })
        });
        Bytes::new(self.raised.stop_on(reserved))
    }
}

fn is_refusal(error: &PyErr) -> bool {
    Python::attach(|py| {
        let class = py.import("cubeyard.errors").and_then(|errors| errors.getattr("OutOfMemory"));
        class.is_ok_and(|class| error.is_instance(py, &class))
    })
}
