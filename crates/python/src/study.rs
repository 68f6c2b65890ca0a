//! Steps of language models and sweeps of collectives.

use cubeyard_cli::results;
use cubeyard_collectives::collective::Operation;
use cubeyard_collectives::distributed::{CclConfig, Ranks};
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::{HfModel, MeasureConfig, ModelError, ModelSpec, Phase, Workload, measure};
use cubeyard_runtime::dtype::DType;
use cubeyard_study::collectives::{CHECKED, Sizes, Sweep, SweepConfig, Which, page};
use cubeyard_tl::{Needs, TooLarge};
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise, without_panic};
use crate::topology::Topology;
use crate::{plain, signals};

/// File used instead of a named model or the default ccl.yaml: its name in error messages, and its text.
pub(crate) type Given = Option<(String, String)>;

/// Parameters of a step, as given by Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct StepArguments {
    model: String,
    file: Given,
    prefill: bool,
    batch: u64,
    context: u64,
    chunk: u64,
    layers: u64,
    dtype: Option<String>,
    weights: Option<String>,
    kv_dtype: Option<String>,
    hf: Given,
    experts: String,
    positions: Option<u64>,
}

impl StepArguments {
    fn config(self, topology: &Topology) -> PyResult<MeasureConfig> {
        let phase = if self.prefill { Phase::Prefill } else { Phase::Decode };
        let given = self.dtype.as_deref().map(|name| named("dtype", name)).transpose()?;
        let weights = self.weights.as_deref().map(weight_type).transpose()?;
        let kv = self.kv_dtype.as_deref().map(cache_type).transpose()?;
        let model = model(&self.model, self.file, self.hf)?;
        let (HfModel { spec, notes, .. }, [dtype, weights]) = model.with_types(given, weights);
        let experts = expert_placement(&self.experts)?;
        let Self { batch, context, chunk, layers, positions, .. } = self;
        Ok(MeasureConfig {
            spec,
            work: Workload { phase, batch, context, chunk, dtype, weights, experts, kv },
            topology: topology.topology.clone(),
            layers,
            positions,
            notes,
        })
    }
}

/// Measures a step of a model, which is a known name or a file.
#[pyfunction]
fn model_step<'py>(
    py: Python<'py>,
    topology: &Topology,
    arguments: StepArguments,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, String)> {
    let config = arguments.config(topology)?;
    let report = signals::long(py, || without_panic(|| step(&config, progress)))?;
    Ok((plain::report(py, &report)?, results::model_text(&report)))
}

fn step(
    config: &MeasureConfig,
    progress: Option<Py<PyAny>>,
) -> PyResult<cubeyard_model::report::ModelReport> {
    within(config.needs().or_raise()?, false)?;
    let mut failed = None;
    let mut tell = |done: usize, all: usize| {
        let Some(progress) = &progress else { return };
        let told = Python::attach(|py| progress.call1(py, (done, all, &config.spec.name)));
        failed = failed.take().or(told.err());
    };
    let report = measure(config, &mut tell).or_raise();
    failed.map_or(report, Err)
}

/// Returns the model from a Hugging Face configuration, from a file, or by name.
pub(crate) fn model(name: &str, file: Given, hf: Given) -> PyResult<HfModel> {
    match hf {
        Some((name, text)) => HfModel::read_bytes(&name, text.as_bytes()).or_raise(),
        None => Ok(HfModel::from(spec(name, file)?)),
    }
}

/// Parses a placement of experts.
pub(crate) fn expert_placement(name: &str) -> PyResult<ExpertPlacement> {
    let found = ExpertPlacement::NAMES.into_iter().find(|(known, _)| *known == name);
    let text = || Kind::Input.error(format!("experts={name:?}: expected split, sip or cube"));
    found.map(|(_, placement)| placement).ok_or_else(text)
}

/// Parses an element type of weights.
pub(crate) fn weight_type(name: &str) -> PyResult<DType> {
    let found = cubeyard_model::cut::weight_type(name);
    found.map_err(|error| Kind::Input.error(format!("weights={name:?}: {error}")))
}

/// Parses an element type of caches.
pub(crate) fn cache_type(name: &str) -> PyResult<DType> {
    let found = cubeyard_model::cut::weight_type(name);
    found.map_err(|error| Kind::Input.error(format!("kv_dtype={name:?}: {error}")))
}

fn spec(model: &str, file: Given) -> PyResult<ModelSpec> {
    match file {
        Some((name, text)) => ModelSpec::read_bytes(&name, text.as_bytes()).or_raise(),
        None => {
            ModelSpec::named(model).map_err(|error| Kind::Input.error(format!("model: {error}")))
        }
    }
}

/// Reads a configuration of Hugging Face, given as its name in errors and its text.
#[pyfunction]
fn model_read(py: Python<'_>, given: (String, String)) -> PyResult<Bound<'_, PyAny>> {
    let (name, text) = given;
    let model = HfModel::read_bytes(&name, text.as_bytes()).or_raise()?;
    plain::report(py, &model)
}

/// Returns the names of all known models.
#[pyfunction]
fn model_names() -> Vec<&'static str> {
    ModelSpec::names().collect()
}

/// Parses a name; `argument` is its name in error messages.
pub(crate) fn named<T: std::str::FromStr<Err: std::fmt::Display>>(
    argument: &str,
    text: &str,
) -> PyResult<T> {
    text.parse().map_err(|error| Kind::Input.error(format!("{argument}={text:?}: {error}")))
}

/// Refuses work that needs more memory than the host has.
fn within(needs: Needs, data: bool) -> PyResult<()> {
    needs.within(results::host_memory(), data).or_raise()
}

impl IntoPyErr for TooLarge {
    fn into_py_err(self) -> PyErr {
        let numbers = [("requested", self.bytes.get()), ("free", self.limit.get())];
        Kind::OutOfMemory.with(self.to_string(), &numbers)
    }
}

impl IntoPyErr for ModelError {
    fn into_py_err(self) -> PyErr {
        let text = self.to_string();
        match self {
            Self::Runtime(error) => error.into_py_err(),
            Self::Group(error) => error.into_py_err(),
            Self::DoesNotFit { source, .. } => crate::error::renamed(source.into_py_err(), &text),
            _ => Kind::Input.error(text),
        }
    }
}

/// Parameters of a sweep of collectives, as given by Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SweepArguments {
    op: String,
    reduce: String,
    root: usize,
    algorithm: String,
    ranks: Option<String>,
    world: Option<usize>,
    sizes: Vec<String>,
    dtype: String,
    file: Given,
    checks_all: bool,
}

impl SweepArguments {
    fn config(&self, topology: &Topology) -> PyResult<SweepConfig> {
        Ok(SweepConfig {
            topology: topology.topology.clone(),
            ccl: self.ccl()?,
            which: Which::from(&*self.algorithm),
            operation: self.operation()?,
            dtype: named::<DType>("dtype", &self.dtype)?,
            sizes: all_sizes(&self.sizes)?,
            check_up_to: if self.checks_all { u64::MAX } else { CHECKED },
            every_memory: self.checks_all,
        })
    }

    fn operation(&self) -> PyResult<Operation> {
        let reduce = named("reduce", &self.reduce)?;
        let found = Operation::named(&self.op, reduce, self.root);
        found.map_err(|error| Kind::Input.error(format!("op={:?}: {error}", self.op)))
    }

    fn ccl(&self) -> PyResult<CclConfig> {
        let mut ccl = match &self.file {
            Some((name, text)) => CclConfig::read_bytes(name, text.as_bytes()).or_raise()?,
            None => CclConfig::embedded(),
        };
        if let Some(ranks) = self.ranks.as_deref().map(rank_kind).transpose()? {
            ccl.each(|config| config.ranks = ranks);
        }
        if self.world.is_some() {
            ccl.each(|config| config.world_size = self.world);
        }
        Ok(ccl)
    }

    fn run(&self, topology: &Topology) -> PyResult<Sweep> {
        let config = self.config(topology)?;
        within(config.needs().or_raise()?, true)?;
        Sweep::run(&config).or_raise()
    }
}

/// Measures a collective over sizes and algorithms. Returns the report, the tables and the page of `cubeyard ccl`.
#[pyfunction]
fn ccl_sweep<'py>(
    py: Python<'py>,
    topology: &Topology,
    arguments: SweepArguments,
) -> PyResult<(Bound<'py, PyAny>, String, String)> {
    let sweep = signals::long(py, || without_panic(|| arguments.run(topology)))?;
    Ok((plain::report(py, &sweep)?, results::ccl_text(&sweep), page(&sweep)))
}

fn rank_kind(name: &str) -> PyResult<Ranks> {
    let found = Ranks::NAMES.iter().find(|(known, _)| *known == name);
    found
        .map(|&(_, ranks)| ranks)
        .ok_or_else(|| Kind::Input.error(format!("ranks={name:?}: expected sip, cube or pe")))
}

/// Returns all sizes of the given ranges, such as `256:1M`, and single sizes.
fn all_sizes(texts: &[String]) -> PyResult<Vec<u64>> {
    let ranges: PyResult<Vec<Sizes>> = texts.iter().map(|text| named("sizes", text)).collect();
    Ok(ranges?.into_iter().flat_map(Sizes::all).collect())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(model_step, module)?)?;
    module.add_function(wrap_pyfunction!(model_read, module)?)?;
    module.add_function(wrap_pyfunction!(model_names, module)?)?;
    module.add_function(wrap_pyfunction!(ccl_sweep, module)?)
}
