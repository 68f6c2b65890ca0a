//! Benches written in Python, wrapped as benches of the Rust crates.

use std::path::Path;
use std::rc::Rc;

use cubeyard_bench::{
    Bench, BenchError, Lab, Needs, Outcome, OwnError, Parameter, ParameterKind, Value, Values, Work,
};
use cubeyard_cli::{Code, FrontError, OwnBenches, SweepRequest};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::context::Context;
use crate::error::Kind;
use crate::session::Shared;

/// Function decorated with `@cubeyard.bench`.
pub(crate) struct PyBench {
    name: String,
    summary: String,
    parameters: Vec<Parameter>,
    /// Object of class `cubeyard.Bench`.
    object: Py<PyAny>,
}

/// Name, kind, default, bounds of a whole number, words of a choice, and help of a parameter.
type Declared = (String, String, String, Option<(i64, i64)>, Vec<String>, String);

impl<'a, 'py> FromPyObject<'a, 'py> for PyBench {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let declared: Vec<Declared> = object.getattr("_declared")?.extract()?;
        Ok(Self {
            name: object.getattr("name")?.extract()?,
            summary: object.getattr("description")?.extract()?,
            parameters: declared.into_iter().map(parameter).collect::<PyResult<_>>()?,
            object: object.to_owned().unbind(),
        })
    }
}

fn parameter((name, kind, default, bounds, words, help): Declared) -> PyResult<Parameter> {
    let (low, high) = bounds.unwrap_or((i64::MIN, i64::MAX));
    let wrong = || Kind::Input.error(format!("{name}={default}: expected a value of kind {kind}"));
    let (kind, value) = match &*kind {
        "int" => {
            let number = default.parse().map_err(|_| wrong())?;
            (ParameterKind::Integer(low, high), Value::Integer(number))
        }
        "float" => (ParameterKind::Number, Value::Number(default.parse().map_err(|_| wrong())?)),
        "str" => (ParameterKind::Text, Value::Text(default)),
        "choice" => {
            let words = words.into_iter().map(Into::into).collect();
            (ParameterKind::Choice(words), Value::Choice(default.into()))
        }
        _ => return Err(wrong()),
    };
    Ok(Parameter::new(name, kind, value, help))
}

impl Bench for PyBench {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        &self.summary
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.parameters.clone()
    }

    fn needs(&self, _: &Values, _: &Topology, _: u64) -> Needs {
        // The need is unknown before the bench runs.
        Needs::default()
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        Python::attach(|py| {
            let shared = shared(lab);
            let called = self.call(py, lab, &shared, values);
            let ended = shared.end(py);
            match called.and_then(|returned| ended.map(|()| returned)) {
                Ok((failure, work)) => Ok(outcome(lab, failure, work)),
                Err(error) => Err(own_error(py, error).into()),
            }
        })
    }
}

/// Shares the context of a bench with Python. Times of launches are recorded while their tensors are still mapped.
fn shared(lab: &Lab) -> Shared {
    let settled = lab.clone();
    // The error of a failed launch can be dropped: its caller has received it, and the end of the
    // bench reports it again.
    let before_drop = Box::new(move || drop(settled.settle()));
    Shared::of(lab.context.clone(), Rc::clone(&lab.launcher), Some(before_drop))
}

fn outcome(lab: &Lab, failure: Option<String>, work: Work) -> Outcome {
    let assertions = match failure {
        Some(text) => Some(Err(text)),
        None => lab.has_data.then_some(Ok(())),
    };
    Outcome { work, assertions, ..Outcome::default() }
}

/// Work that a bench declares: element type and operations of matrix products, elements, bytes, and memories.
type DeclaredWork = (Option<(String, u64)>, u64, u64, Option<u64>);

fn work((gemm, elements, bytes, memories): DeclaredWork) -> PyResult<Work> {
    let typed = |(dtype, flop): (String, u64)| {
        let known = dtype.parse::<DType>();
        let known =
            known.map_err(|error| Kind::Input.error(format!("work: dtype={dtype:?}: {error}")));
        Ok::<_, PyErr>((known?, flop))
    };
    Ok(Work { gemm: gemm.map(typed).transpose()?, elements, bytes, memories, ..Work::default() })
}

impl PyBench {
    /// Calls the function; returns the text of a failed assertion, and the declared work.
    fn call(
        &self,
        py: Python<'_>,
        lab: &Lab,
        shared: &Shared,
        values: &Values,
    ) -> PyResult<(Option<String>, Work)> {
        let context = Py::new(py, Context { shared: shared.clone() })?;
        let sips: Vec<u32> = lab.sips.iter().map(|sip| sip.number()).collect();
        let set = PyDict::new(py);
        for parameter in &self.parameters {
            match values.value(&parameter.name) {
                Value::Integer(number) => set.set_item(&*parameter.name, number)?,
                Value::Number(number) => set.set_item(&*parameter.name, number)?,
                other => set.set_item(&*parameter.name, other.to_string())?,
            }
        }
        let arguments = (context, lab.has_data, sips, set);
        let returned = self.object.bind(py).call_method1("_call", arguments)?;
        let (failure, declared): (Option<String>, Option<DeclaredWork>) = returned.extract()?;
        Ok((failure, declared.map(work).transpose()?.unwrap_or_default()))
    }
}

/// Describes an exception: its class, text and line, whether simulated memory or time has run out, and advice.
fn describe(py: Python<'_>, error: &PyErr) -> PyResult<(String, bool, Option<String>)> {
    py.import("cubeyard.study.bench")?.call_method1("describe", (error,))?.extract()
}

/// Converts an exception to an error, with its class, text and line.
fn own_error(py: Python<'_>, error: PyErr) -> OwnError {
    let told = describe(py, &error);
    let (text, exhausted, help) = told.unwrap_or_else(|other| (other.to_string(), false, None));
    OwnError { text, source: Box::new(error), exhausted, help }
}

/// Benches defined in Python files.
pub(crate) struct File;

impl OwnBenches for File {
    fn of_file(&self, path: &Path) -> Result<Vec<Box<dyn Bench>>, FrontError> {
        Python::attach(|py| {
            let benches = py.import("cubeyard.study.bench")?.call_method1("load", (path,))?;
            let benches: Vec<PyBench> = benches.extract()?;
            Ok(benches.into_iter().map(|bench| Box::new(bench) as Box<dyn Bench>).collect())
        })
        .map_err(|error: PyErr| front_error(&error))
    }

    fn sweep(&self, request: &SweepRequest) -> Result<Code, FrontError> {
        let failed = Python::attach(|py| {
            let SweepRequest { file, out, scheduler, workers, fresh, quiet } = request;
            let arguments = (file, out, scheduler, workers, fresh, quiet);
            let module = py.import("cubeyard.study.sweep_file")?;
            module.call_method1("command", arguments)?.extract::<bool>()
        });
        let failed = failed.map_err(|error| front_error(&error))?;
        Ok(if failed { Code::Failed } else { Code::Done })
    }
}

/// Returns the text of an error of this package, and the class of any other.
fn front_error(error: &PyErr) -> FrontError {
    let told = Python::attach(|py| describe(py, error));
    told.map_or_else(|_| error.to_string(), |(text, ..)| text).into()
}
