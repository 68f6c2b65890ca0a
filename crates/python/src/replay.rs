//! Replay of recorded allocations: functions and classes of `cubeyard.replay`.

mod outcome;
mod policy;
mod trace;
mod worker;

use std::sync::Arc;

use cubeyard_cli::{Input, MemoryExceeded};
use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{BadLag, Lag};
use cubeyard_replay::{HolderOptions, POLICIES, Report};
use pyo3::prelude::*;

use crate::error::Kind;
use outcome::ReplayOutcome;
use policy::Chosen;
use trace::RecordedTrace;

/// Returns the name, the summary and the kind of each policy.
#[pyfunction]
fn replay_policies() -> Vec<(&'static str, &'static str, String)> {
    let kind = |policy: &cubeyard_replay::ReplayPolicy| format!("{:?}", policy.kind).to_lowercase();
    POLICIES.iter().map(|policy| (policy.name, policy.summary, kind(policy))).collect()
}

/// Replays traces under policies, given by name or as classes; under all policies if none is given.
///
/// `progress` is called repeatedly with the number of steps since the last call, and with the total number of steps.
/// `holders` has the number of holders of memory in the result, the property by which they are grouped, and whether
/// frames of C++ code count. `lag` is a number of launches or `recorded`; if omitted, each trace keeps its rule.
#[pyfunction]
#[pyo3(signature = (traces, policies, progress, limit, holders, lag = None))]
fn replay_traces(
    py: Python<'_>,
    traces: Vec<PyRef<'_, RecordedTrace>>,
    policies: Vec<Bound<'_, PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
    limit: Option<u64>,
    holders: (Option<usize>, String, bool),
    lag: Option<String>,
) -> PyResult<ReplayOutcome> {
    let (count, by, native) = holders;
    let by = by.parse().map_err(|error| Kind::Input.error(format!("by: {error}")))?;
    let holders = HolderOptions { count, by, native };
    let lag: Option<Lag> = lag
        .map(|lag| lag.parse())
        .transpose()
        .map_err(|error: BadLag| Kind::Input.error(error.to_string()))?;
    let inputs: Vec<_> = traces.iter().map(|trace| lagging(&trace.0, lag)).collect();
    let limit = memory_limit(limit);
    cubeyard_cli::check_replay_memory(&inputs, limit).map_err(|error| refusal(&error))?;
    let mut policies = policies.iter().map(policy::choose).collect::<PyResult<Vec<_>>>()?;
    if policies.is_empty() {
        policies = POLICIES.iter().map(Chosen::Native).collect();
    }
    let mut told = worker::Told::new(steps(&inputs) * policies.len(), progress);
    let mut reports = Vec::new();
    for input in &inputs {
        let mut report = Report::new(&input.trace);
        for policy in &policies {
            report.rows.push(policy.replay(py, input, &mut told)?);
        }
        let least = Arc::clone(input);
        let report = worker::run(py, &mut told, move |_| {
            report.find_least(&least.trace);
            report
        })?;
        reports.push(report);
    }
    told.finish()?;
    Ok(ReplayOutcome { inputs, reports, holders })
}

/// Returns an input under another rule by which the work of its streams completes, if one is given.
fn lagging(input: &Arc<Input>, lag: Option<Lag>) -> Arc<Input> {
    let Some(lag) = lag else { return Arc::clone(input) };
    Arc::new(Input { file: input.file.clone(), trace: input.trace.clone().with_lag(lag) })
}

/// Returns the number of steps per policy: a policy replays each trace twice, to count bytes and to measure the time.
fn steps(inputs: &[Arc<Input>]) -> usize {
    inputs.iter().map(|input| 2 * input.trace.events.len()).sum()
}

/// Returns the given memory limit, or the limit of the command.
fn memory_limit(given: Option<u64>) -> Bytes {
    given.map_or_else(cubeyard_cli::results::host_memory, Bytes::new)
}

/// Converts an error of reading or replaying, which is given as text.
fn refusal(error: &(impl std::fmt::Display + AsRef<dyn std::error::Error + Send + Sync>)) -> PyErr {
    let text = error.to_string();
    let source: &(dyn std::error::Error + Send + Sync + 'static) = error.as_ref();
    if source.is::<MemoryExceeded>() {
        return Kind::OutOfMemory.error(text.replace("--memory SIZE", "memory_limit=SIZE"));
    }
    Kind::Input.error(text)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ReplayOutcome>()?;
    module.add_class::<RecordedTrace>()?;
    module.add_function(wrap_pyfunction!(trace::bundled_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace::read_traces, module)?)?;
    module.add_function(wrap_pyfunction!(replay_policies, module)?)?;
    module.add_function(wrap_pyfunction!(replay_traces, module)?)
}
