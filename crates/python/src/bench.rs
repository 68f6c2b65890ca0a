//! Built-in benches, and benches written in Python.

mod own;

use cubeyard_bench::record::Record;
use cubeyard_bench::report::{self, RunReport, Timeline};
use cubeyard_bench::{
    Bench, BenchEntry, BenchError, RunConfig, RunFigures, RunInputs, RunLog, catalogue,
    check_memory, find,
};
use cubeyard_cli::results::host_memory;
use cubeyard_collectives::distributed::DistError;
use cubeyard_tl::launch::Mode;
use cubeyard_tl::program::Finding;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::topology::Topology;
use crate::{plain, signals};

pub(crate) use own::{File, PyBench};

/// Results of a run. The log of operations is kept as a trace and as a timeline, which are smaller.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Run {
    report: RunReport,
    findings: Vec<Finding>,
    inputs: RunInputs,
    topology: cubeyard_device::topology::Topology,
    trace: Vec<u8>,
    timeline: Timeline,
    is_well: bool,
}

#[pymethods]
impl Run {
    /// Returns the report of `cubeyard run`; the critical path and the timeline only if `explains`.
    fn figures<'py>(&self, py: Python<'py>, explains: bool) -> PyResult<Bound<'py, PyAny>> {
        let (report, findings) = (&self.report, &*self.findings);
        plain::report(py, &RunFigures { report, findings, explains })
    }

    /// Returns the HTML page of the report.
    fn page(&self, py: Python<'_>) -> String {
        py.detach(|| report::page_with(&self.report, Some(&self.timeline), None))
    }

    /// Returns the critical path as text.
    fn explain(&self, py: Python<'_>) -> String {
        py.detach(|| cubeyard_cli::explained(&self.report))
    }

    /// Returns the trace for Perfetto.
    fn trace<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.trace)
    }

    /// Returns the record as a line of JSON; `source` is the hash of a bench that is not built in.
    /// The values of the machine are added if `with_machine`.
    fn record(&self, source: Option<String>, with_machine: bool) -> String {
        let record = Record::new(&self.inputs).with(&self.report, &self.findings);
        let record = if with_machine { record.on(&self.topology) } else { record };
        Record { source, ..record }.line()
    }

    #[getter]
    fn is_well(&self) -> bool {
        self.is_well
    }
}

/// Bench of a request: by name, or written in Python.
#[derive(FromPyObject)]
enum Target {
    Name(String),
    Own(PyBench),
}

impl Target {
    fn bench(self) -> Result<Box<dyn Bench>, BenchError> {
        match self {
            Self::Name(name) => find(&name),
            Self::Own(bench) => Ok(Box::new(bench)),
        }
    }
}

/// Options of a run: `--data`, `--live`, `--device`.
type Options = (bool, bool, Option<u32>, bool);

fn config(
    topology: &Topology,
    set: Vec<String>,
    options: Options,
    ops: bool,
) -> PyResult<RunConfig> {
    let (data, live, sip, all) = options;
    let topology = &topology.topology;
    let sips = match sip {
        None if all => topology.sips().collect(),
        None => Vec::new(),
        Some(number) => {
            let sip = cubeyard_bench::sip(topology, number);
            vec![sip.map_err(|error| Kind::Input.error(format!("device: {error}")))?]
        }
    };
    let mode = if live { Mode::Live } else { Mode::Recorded };
    Ok(RunConfig { topology: topology.clone(), set, data, mode, sips, ops })
}

/// Runs a bench on a machine of its own.
#[pyfunction]
fn run_bench(
    py: Python<'_>,
    target: Target,
    set: Vec<String>,
    topology: &Topology,
    options: Options,
) -> PyResult<Run> {
    let config = config(topology, set, options, true)?;
    signals::long(py, move || crate::error::without_panic(|| measured(target, &config)))
}

fn measured(target: Target, config: &RunConfig) -> PyResult<Run> {
    let bench = target.bench().or_raise()?;
    check_memory(&*bench, config, host_memory()).or_raise()?;
    let run = cubeyard_bench::run(&*bench, config).or_raise()?;
    let mut trace = Vec::new();
    if let Some(log) = &run.log {
        log.write_trace(&mut trace).map_err(|error| Kind::Internal.error(error.to_string()))?;
    }
    let timeline = run.log.as_ref().map(RunLog::timeline).unwrap_or_default();
    let is_well = run.is_well();
    let cubeyard_bench::Run { report, findings, inputs, .. } = run;
    let topology = config.topology.clone();
    Ok(Run { report, findings, inputs, topology, trace, timeline, is_well })
}

/// Returns the record of a run that has not been made: its inputs with the defaults filled in.
#[pyfunction]
fn foreseen_record(
    target: Target,
    set: Vec<String>,
    topology: &Topology,
    options: Options,
    source: Option<String>,
) -> PyResult<String> {
    let config = config(topology, set, options, false)?;
    let bench = target.bench().or_raise()?;
    let inputs = RunInputs::new(&*bench, &config).or_raise()?;
    Ok(Record { source, ..Record::new(&inputs) }.line())
}

/// Returns the built-in benches with their parameters.
#[pyfunction]
fn built_in_benches(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let all: Vec<_> = catalogue().iter().map(|bench| BenchEntry::new(&**bench)).collect();
    plain::report(py, &all)
}

/// Returns a bench, by name or written in Python, with its parameters.
#[pyfunction]
fn describe_bench(py: Python<'_>, target: Target) -> PyResult<Bound<'_, PyAny>> {
    plain::report(py, &BenchEntry::new(&*target.bench().or_raise()?))
}

impl IntoPyErr for BenchError {
    fn into_py_err(self) -> PyErr {
        let text = self.to_string();
        match self {
            Self::Own(error) => match error.source.downcast::<PyErr>() {
                Ok(error) => *error,
                Err(error) => Kind::Internal.error(error.to_string()),
            },
            Self::Runtime(error) | Self::Distributed(DistError::Runtime(error)) => {
                error.into_py_err()
            }
            Self::Distributed(_) => Kind::Distributed.error(text),
            Self::TooLarge(_) => Kind::OutOfMemory.error(text),
            Self::NeedsData(name) => {
                Kind::NoData.error(format!("{name} branches on loaded values: it needs data=True"))
            }
            _ => Kind::Input.error(text),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Run>()?;
    module.add_function(wrap_pyfunction!(run_bench, module)?)?;
    module.add_function(wrap_pyfunction!(foreseen_record, module)?)?;
    module.add_function(wrap_pyfunction!(built_in_benches, module)?)?;
    module.add_function(wrap_pyfunction!(describe_bench, module)?)
}
