//! Future of a Python kernel: calls its function, and resumes its coroutine as the PE proceeds.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cubeyard_runtime::{BoundArgument, Scalar};
use cubeyard_tl as tl;
use cubeyard_tl::kernel::{Args, KernelFuture};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::failure;
use super::language::Tl;
use super::lines::Lines;
use super::reference::{ArgumentTensor, Ref};
use super::run::Run;
use super::wait::{PendingValue, array};
use super::wanted::Contents;

/// Python function used as a kernel.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) callable: Py<PyAny>,
    /// Names of the parameters, without `tl`.
    pub(crate) parameters: Vec<String>,
    /// Lines that the function has executed, on any PE.
    pub(crate) lines: Rc<Lines>,
}

/// Kernel on one PE.
struct Driver {
    function: Rc<Function>,
    run: Rc<Run>,
    arguments: Args,
    state: State,
}

enum State {
    /// The function has not been called yet.
    New,
    /// The coroutine is resumed when the awaited value is available.
    Waiting {
        coroutine: Py<PyAny>,
        value: Py<PendingValue>,
        contents: Contents,
        shape: Vec<u64>,
    },
    Ended,
}

/// Starts a kernel; its function is called when the future is polled.
pub(crate) fn start(function: Rc<Function>, tl: tl::Tl, arguments: Args) -> KernelFuture {
    let run = Run::new(&function.name, tl, Rc::clone(&function.lines));
    Box::pin(Driver { function, run, arguments, state: State::New })
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let contents = match this.contents(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(contents) => contents,
        };
        Python::attach(|py| {
            let run = Rc::clone(&this.run);
            match run.enter(|| this.resume(py, contents, context)) {
                Ok(polled) => polled,
                Err(error) => {
                    failure::keep(py, &this.run, this.function.callable.bind(py), error);
                    this.end();
                    Poll::Ready(())
                }
            }
        })
    }
}

/// Elements of a tile, with the shape in which it is viewed.
type Elements = Option<(Rc<tl::numeric::Array>, Vec<u64>)>;

impl Driver {
    /// Returns the elements that the kernel is waiting for, if any.
    fn contents(&mut self, context: &mut Context<'_>) -> Poll<Elements> {
        match &mut self.state {
            State::Waiting { contents, shape, .. } => {
                let shape = std::mem::take(shape);
                contents.as_mut().poll(context).map(|array| Some((array, shape)))
            }
            State::New | State::Ended => Poll::Ready(None),
        }
    }

    fn resume(
        &mut self,
        py: Python<'_>,
        contents: Elements,
        context: &mut Context<'_>,
    ) -> PyResult<Poll<()>> {
        match (std::mem::replace(&mut self.state, State::Ended), contents) {
            (State::New, _) => self.call(py, context),
            (State::Waiting { coroutine, value, .. }, Some((elements, shape))) => {
                value.get().set(array(py, &elements, &shape)?);
                self.proceed(py, coroutine.into_bound(py), context)
            }
            _ => unreachable!("an ended kernel is not polled"),
        }
    }

    /// Calls the function.
    fn call(&mut self, py: Python<'_>, context: &mut Context<'_>) -> PyResult<Poll<()>> {
        let arguments = PyTuple::new(py, self.refs(py)?)?;
        let named = PyDict::new(py);
        named.set_item(pyo3::intern!(py, "tl"), Tl::of(py, &self.run)?)?;
        let result = self.function.callable.bind(py).call(arguments, Some(&named))?;
        drop(named);
        if result.is_none() {
            return self.finish(py, &result);
        }
        if is_coroutine(&result)? {
            return self.proceed(py, result, context);
        }
        self.finish(py, &result)
    }

    /// Resumes the coroutine until it waits for a value that is not available yet, or ends.
    fn proceed(
        &mut self,
        py: Python<'_>,
        coroutine: Bound<'_, PyAny>,
        context: &mut Context<'_>,
    ) -> PyResult<Poll<()>> {
        loop {
            let yielded = match coroutine.call_method1(pyo3::intern!(py, "send"), (py.None(),)) {
                Ok(yielded) => yielded,
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                    let value = error.value(py).getattr("value")?;
                    return self.finish(py, &value);
                }
                Err(error) => return Err(error),
            };
            let awaited = yielded.cast::<PendingValue>().ok();
            let future = awaited.and_then(|value| value.get().future(&self.run));
            let (Some(value), Some((mut contents, shape))) = (awaited, future) else {
                coroutine.call_method0("close")?;
                return Err(self.foreign(&yielded));
            };
            match contents.as_mut().poll(context) {
                Poll::Ready(elements) => value.get().set(array(py, &elements, &shape)?),
                Poll::Pending => {
                    let (coroutine, value) = (coroutine.unbind(), value.clone().unbind());
                    self.state = State::Waiting { coroutine, value, contents, shape };
                    return Ok(Poll::Pending);
                }
            }
        }
    }

    /// Creates the exception for a kernel that awaits an unsupported object.
    fn foreign(&self, yielded: &Bound<'_, PyAny>) -> PyErr {
        let kind = super::operand::kind_of(yielded);
        self.run
            .fail(&format!("a kernel awaits only tl.value, tl.wait and tl.wait_for; found {kind}"))
    }

    /// Ends the kernel; checks that it returns nothing and keeps no tile.
    fn finish(&mut self, py: Python<'_>, result: &Bound<'_, PyAny>) -> PyResult<Poll<()>> {
        if !result.is_none() {
            let kind = super::operand::kind_of(result);
            let what =
                format!("the kernel returns a {kind}: expected nothing; store results in a tensor");
            return Err(self.at_definition(py, &what));
        }
        if self.run.kept_tile().is_some() {
            // Tiles that are only in reference cycles are collected, so that they do not count as kept.
            py.import("gc")?.call_method0("collect")?;
        }
        if let Some(kept) = self.run.kept_tile() {
            let what = format!("{kept} is kept beyond the end of the kernel: store it in a tensor");
            return Err(self.at_definition(py, &what));
        }
        failure::keep_caught(&self.run);
        self.end();
        Ok(Poll::Ready(()))
    }

    /// Creates an exception that names the line of the function.
    fn at_definition(&self, py: Python<'_>, what: &str) -> PyErr {
        self.run.set_unplaced(|| failure::definition(self.function.callable.bind(py)));
        self.run.fail(&what)
    }

    /// Returns the arguments as the function sees them.
    fn refs(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let numbered = self.arguments.bound().iter().enumerate();
        numbered.map(|(position, bound)| self.argument(py, position, bound)).collect()
    }

    fn argument(
        &self,
        py: Python<'_>,
        position: usize,
        bound: &BoundArgument,
    ) -> PyResult<Py<PyAny>> {
        let tensor = match bound {
            BoundArgument::Scalar(number) => return number_of(py, *number),
            BoundArgument::Tensor(tensor) => tensor,
        };
        let name = self.function.parameters.get(position).cloned();
        let (part, ragged) = match self.arguments.tensor(position).held() {
            Ok(part) => (part, None),
            Err(why) => (None, Some(why)),
        };
        let argument = ArgumentTensor {
            name: name.unwrap_or_else(|| position.to_string()),
            ragged,
            whole: tensor
                .whole
                .map(|address| tl::Ref::new(address, tensor.shape.dimensions(), tensor.dtype)),
            pe: self.run.tl.pe().to_string(),
        };
        Ok(Py::new(py, Ref::argument(part, argument))?.into_any())
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.run.end();
    }
}

/// Closes a kernel that is dropped before its end, so that it releases the resources that it holds.
impl Drop for Driver {
    fn drop(&mut self) {
        let State::Waiting { coroutine, .. } = std::mem::replace(&mut self.state, State::Ended)
        else {
            self.run.end();
            return;
        };
        Python::attach(|py| {
            let run = Rc::clone(&self.run);
            if let Err(error) = run.enter(|| coroutine.call_method0(py, "close")) {
                error.write_unraisable(py, Some(self.function.callable.bind(py)));
            }
            drop(coroutine);
        });
        self.run.end();
    }
}

fn is_coroutine(result: &Bound<'_, PyAny>) -> PyResult<bool> {
    static COROUTINE: pyo3::sync::PyOnceLock<Py<PyAny>> = pyo3::sync::PyOnceLock::new();
    let class = COROUTINE.import(result.py(), "types", "CoroutineType")?;
    result.is_instance(class)
}

/// Converts a number to the Python type of its kind.
fn number_of(py: Python<'_>, number: Scalar) -> PyResult<Py<PyAny>> {
    Ok(match number {
        Scalar::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any().unbind(),
        Scalar::Int(whole) => whole.into_pyobject(py)?.into_any().unbind(),
        Scalar::Float(value) => value.into_pyobject(py)?.into_any().unbind(),
    })
}
