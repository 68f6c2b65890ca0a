//! Traces of slices recorded by Python code.

use cubeyard_perfetto::{Arg, CounterUnit, Lanes, TraceError, TraceEvent, TraceWriter};
use cubeyard_sim::Time;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::Kind;

/// Detail of a slice.
#[derive(FromPyObject)]
enum Detail {
    Number(u64),
    Text(String),
}

impl Detail {
    fn arg(&self) -> Arg<'_> {
        match self {
            Self::Number(number) => Arg::Uint(*number),
            Self::Text(text) => Arg::Text(text),
        }
    }
}

/// Slice: its track, start and end in picoseconds, name and details.
type Slice = (String, u64, u64, String, Vec<(String, Detail)>);

/// Number of bytes over time: its track, and times in picoseconds with the bytes from each time on.
type Counter = (String, Vec<(u64, i64)>);

/// Returns a trace of slices and counters. Tracks are in the order of their names, slices before counters; slices that
/// overlap get lanes of their own.
#[pyfunction]
#[pyo3(signature = (slices, counters=Vec::new()))]
fn trace_of_slices(
    py: Python<'_>,
    slices: Vec<Slice>,
    counters: Vec<Counter>,
) -> PyResult<Bound<'_, PyBytes>> {
    let trace = py.detach(|| encode(slices, counters));
    let trace = trace.map_err(|error| Kind::Internal.error(error.to_string()))?;
    Ok(PyBytes::new(py, &trace))
}

fn encode(mut slices: Vec<Slice>, mut counters: Vec<Counter>) -> Result<Vec<u8>, TraceError> {
    slices.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
    let mut trace = TraceWriter::new(Vec::new());
    for track in slices.chunk_by(|a, b| a.0 == b.0) {
        let mut lanes = Lanes::new(&mut trace, &track[0].0, None)?;
        for (_, start, end, name, details) in track {
            let (start, end) = (Time::from_ps(*start), Time::from_ps(*end));
            let lane = lanes.lane(&mut trace, start, end)?;
            let args: Vec<_> =
                details.iter().map(|(key, value)| (key.as_str(), value.arg())).collect();
            trace.slice(lane, start, end, TraceEvent::new(name).args(&args))?;
        }
    }
    counters.sort();
    for (name, values) in &counters {
        let counter = trace.counter_track(name, CounterUnit::Bytes, None)?;
        for (at, value) in values {
            trace.counter(counter, Time::from_ps(*at), *value)?;
        }
    }
    trace.finish()
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_of_slices, module)?)
}
