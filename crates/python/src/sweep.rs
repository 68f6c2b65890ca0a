//! Sweeps: the points of their grids, their files, and the files of their records.

use std::path::PathBuf;

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::{Record, RecordError};
use cubeyard_study::designs::{Cost, CostError, Design, Designs};
use cubeyard_study::{Grid, GridError, Records as RecordsByKey, RecordsError, SweepFile};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::topology::Topology;

/// Returns the points of the product of lists of values, each as a dictionary.
#[pyfunction]
fn grid_points(
    py: Python<'_>,
    axes: Vec<(String, Vec<Py<PyAny>>)>,
) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let point = |point: Vec<(&str, &Py<PyAny>)>| {
        let values = PyDict::new(py);
        point.into_iter().try_for_each(|(key, value)| values.set_item(key, value))?;
        Ok(values)
    };
    Grid::new(axes).or_raise()?.points().map(point).collect()
}

/// Returns the costs of machines by an expression.
#[pyfunction]
fn costs(machines: Vec<PyRef<'_, Topology>>, expression: &str) -> PyResult<Vec<f64>> {
    let cost = Cost::parse(expression).or_raise()?;
    machines.iter().map(|it| cost.of(&it.topology).or_raise()).collect()
}

/// Compares designs, each with its name, the line of its record and its cost. Returns their times in nanoseconds, whether
/// each is on the Pareto front, the index of the knee, and the verdict. A failed run has no time.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "the types of a Python tuple")]
fn compare_designs(
    designs: Vec<(String, String, f64)>,
) -> PyResult<(Vec<Option<f64>>, Vec<bool>, Option<usize>, String)> {
    let design = |(name, line, cost): (String, String, f64)| {
        let times = Measured::all(&Record::read(&line).or_raise()?);
        let time_ns = times.iter().map(|it| it.time_ns).sum();
        Ok((!times.is_empty()).then_some(Design { name, time_ns, cost: Some(cost) }))
    };
    let designs = Designs::new(designs.into_iter().map(design).collect::<PyResult<Vec<_>>>()?);
    let times = designs.all().iter().map(|it| it.as_ref().map(|it| it.time_ns)).collect();
    Ok((times, designs.front().to_vec(), designs.knee(), designs.verdict()))
}

/// Reads a file of a sweep; returns it as JSON.
#[pyfunction]
fn read_sweep(name: &str, text: &str) -> PyResult<String> {
    let file = SweepFile::read(name, text).or_raise()?;
    Ok(serde_json::to_string(&file).expect("a sweep has text keys and finite numbers"))
}

/// Records by key, and the file that holds them until the end of a `with` statement.
#[pyclass(module = "cubeyard._native")]
struct Records(Option<RecordsByKey>);

impl Records {
    fn open(&mut self) -> PyResult<&mut RecordsByKey> {
        self.0.as_mut().ok_or_else(|| Kind::Closed.error("the file of records is closed"))
    }
}

#[pymethods]
impl Records {
    #[new]
    #[pyo3(signature = (path, resume))]
    fn new(path: Option<PathBuf>, resume: bool) -> PyResult<Self> {
        Ok(Self(Some(RecordsByKey::open(path.as_deref(), resume).or_raise()?)))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &mut self,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.0 = None;
    }

    /// Returns whether there is a record of this key without an error.
    fn has(&mut self, key: &str) -> PyResult<bool> {
        Ok(self.open()?.has(key))
    }

    /// Returns the line of a key.
    fn line(&mut self, key: String) -> PyResult<String> {
        let line = self.open()?.line(&key).map(str::to_owned);
        line.ok_or_else(|| PyKeyError::new_err(key))
    }

    /// Adds the record of a line, and writes it at once.
    fn add(&mut self, line: &str) -> PyResult<()> {
        let record = Record::read(line).or_raise()?;
        self.open()?.add(&record).or_raise()
    }

    /// Writes the file again: records of these keys in order, then records of other sweeps.
    fn sort(&mut self, keys: Vec<String>) -> PyResult<()> {
        self.open()?.sort(&keys).or_raise()
    }
}

impl IntoPyErr for CostError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(format!("cost={self}"))
    }
}

impl IntoPyErr for GridError {
    fn into_py_err(self) -> PyErr {
        Kind::Input.error(match self {
            Self::NoValues(key) => format!("grid['{key}']: expected at least one value"),
            Self::Empty => "grid: expected at least one configuration with a key".to_owned(),
            other => format!("grid: {other}"),
        })
    }
}

impl IntoPyErr for RecordsError {
    fn into_py_err(self) -> PyErr {
        match &self {
            Self::Append { .. } => Kind::Input.error(format!("path: {self}")),
            Self::File { .. } | Self::NotPlain(_) => {
                Kind::Input.error(format!("path: {self}; name another file"))
            }
            Self::Busy(_) => {
                Kind::Input.error(format!("path: {self}; wait for its end, or name another file"))
            }
            Self::Line { error: RecordError::Format(_), .. } => {
                Kind::Version.error(format!("{self}; resume=False makes all records again"))
            }
            Self::Line { .. } | Self::Torn { .. } => {
                Kind::Input.error(format!("{self}; name another file, or resume=False"))
            }
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Records>()?;
    module.add_function(wrap_pyfunction!(grid_points, module)?)?;
    module.add_function(wrap_pyfunction!(costs, module)?)?;
    module.add_function(wrap_pyfunction!(compare_designs, module)?)?;
    module.add_function(wrap_pyfunction!(read_sweep, module)?)
}
