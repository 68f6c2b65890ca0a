//! Streams written in Python.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use cubeyard_memory::flex::{EventId, StreamEvents};
use pyo3::prelude::*;

use super::calls::{self, Raised};
use super::hooks::{self, Hooks};

/// Streams written in Python. Their events are arbitrary objects, which are numbered here.
pub(crate) struct PythonStreams {
    hooks: Weak<Hooks>,
    events: Mutex<Events>,
}

#[derive(Default)]
struct Events {
    /// Pending events: the stream and the object of each. There is no object if `record` raised an exception; the event
    /// is then recorded again when it is queried, because a later event is equally safe.
    pending: BTreeMap<u64, (u32, Option<Py<PyAny>>)>,
    last: u64,
}

impl PythonStreams {
    pub(crate) fn new(hooks: Weak<Hooks>) -> Self {
        Self { hooks, events: Mutex::default() }
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(
        &self,
        function: &'static str,
        act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let answer = Python::try_attach(|py| {
            let streams = hooks::find(py, &self.hooks, |objects| &objects.streams)?;
            let answer = act(streams.bind(py));
            answer.map_err(|error| calls::raise(Raised::Device(function, error))).ok()
        });
        answer.flatten()
    }

    fn record_again(&self, stream: u32) -> Option<Py<PyAny>> {
        self.ask("record", |streams| Ok(streams.call_method1("record", (stream,))?.unbind()))
    }

    /// Returns the object of a pending event; `Err(true)` if the event has passed, `Err(false)` if
    /// it has no object yet.
    fn object(&self, event: EventId) -> Result<Py<PyAny>, bool> {
        let found = Python::try_attach(|py| {
            let events = self.events();
            let (stream, object) = events.pending.get(&event.0)?;
            Some((*stream, object.as_ref().map(|object| object.clone_ref(py))))
        });
        match found {
            None => Err(false),
            Some(None) => Err(true),
            Some(Some((_, Some(object)))) => Ok(object),
            Some(Some((stream, None))) => self.record_again(stream).map_or(Err(false), |object| {
                Python::attach(|py| {
                    let kept = object.clone_ref(py);
                    self.events().pending.insert(event.0, (stream, Some(kept)));
                });
                Ok(object)
            }),
        }
    }

    fn pass(&self, event: EventId) {
        // The event is dropped after the lock is released.
        let passed = self.events().pending.remove(&event.0);
        drop(passed);
    }
}

impl StreamEvents for PythonStreams {
    fn record(&self, stream: u32) -> EventId {
        let object = self.record_again(stream);
        let mut events = self.events();
        events.last += 1;
        let number = events.last;
        events.pending.insert(number, (stream, object));
        EventId(number)
    }

    fn is_complete(&self, event: EventId) -> bool {
        let object = match self.object(event) {
            Ok(object) => object,
            Err(passed) => return passed,
        };
        let asked = self.ask("is_complete", |streams| {
            streams.call_method1("is_complete", (object,))?.extract::<bool>()
        });
        let complete = asked.unwrap_or(false);
        if complete {
            self.pass(event);
        }
        complete
    }

    fn wait(&self, event: EventId) {
        let Ok(object) = self.object(event) else { return };
        let waited = self.ask("wait", |streams| streams.call_method1("wait", (object,)).map(drop));
        if waited.is_some() {
            self.pass(event);
        }
    }
}
