//! Process groups, whose ranks are run by the package.

mod algorithm;
mod machine;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Waker};

use cubeyard_collectives::collective::ReduceOp;
use cubeyard_collectives::distributed::{
    CclConfig, DistError, Distributed, ProcessGroup, Spawned, WorkHandle, Worker,
};
use cubeyard_runtime::Tensor as DeviceTensor;
use pyo3::prelude::*;

use crate::bytes::dtype;
use crate::context::Context;
use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::session::{Owned, Session, Shared};
use crate::tensor::Tensor;
use algorithm::PythonAlgorithm;

/// The process groups of a context, and the run of their ranks.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct World {
    shared: Shared,
    state: Owned<State>,
}

struct State {
    dist: Distributed,
    /// The run of all ranks, and the worker of each.
    run: Option<(Spawned, Vec<Worker>)>,
    /// Groups that ranks have made, by number.
    groups: Vec<ProcessGroup>,
}

/// A call of a rank that was made.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Work {
    shared: Shared,
    handle: Owned<WorkHandle>,
}

impl IntoPyErr for DistError {
    fn into_py_err(self) -> PyErr {
        match self {
            Self::Runtime(error) => error.into_py_err(),
            Self::Backend(_) | Self::World { .. } | Self::Algorithm { .. } | Self::Rank { .. } => {
                Kind::Input.error(self.to_string())
            }
            other => Kind::Distributed.error(other.to_string()),
        }
    }
}

#[pymethods]
impl World {
    #[new]
    fn new(py: Python<'_>, context: &Context) -> PyResult<Self> {
        let shared = context.shared.clone();
        let state = shared.with(py, |session| {
            let dist = Distributed::with_launcher(Rc::clone(&session.launcher));
            Ok(session.keep(&shared, State { dist, run: None, groups: Vec::new() }))
        })?;
        Ok(Self { shared, state })
    }

    /// Makes the group of all ranks by a `ccl.yaml`, and installs its channels.
    fn init(
        &self,
        py: Python<'_>,
        backend: &str,
        name: &str,
        text: &str,
        ranks: Option<usize>,
        find: Py<PyAny>,
    ) -> PyResult<()> {
        self.run(py, move |state| {
            let ccl = ccl(name, text, ranks, &find)?;
            state.dist.init_with(backend, &ccl).or_raise()
        })
    }

    /// Returns the number of ranks that a `ccl.yaml` gives.
    fn ranks(
        &self,
        py: Python<'_>,
        name: &str,
        text: &str,
        ranks: Option<usize>,
        find: Py<PyAny>,
    ) -> PyResult<usize> {
        self.with(py, |state| {
            let map = state.dist.rank_map(&ccl(name, text, ranks, &find)?).or_raise()?;
            Ok(map.world().ranks)
        })
    }

    /// Removes all groups.
    fn destroy(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |state| state.dist.destroy_process_group().or_raise())
    }

    /// Returns the lengths of a row and of a column of a SIP's cubes.
    fn cubes(&self, py: Python<'_>) -> PyResult<(u32, u32)> {
        self.shared.with(py, |session| {
            let spec = session.context.machine(|machine| machine.topology().spec().cubes);
            Ok((spec.w, spec.h))
        })
    }

    /// Starts a run of all ranks.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.run = None;
            let run = state.dist.workers().or_raise()?;
            let workers = (0..run.size()).map(|rank| run.worker(rank)).collect();
            state.run = Some((run, workers));
            Ok(())
        })
    }

    /// Ends the run, finished or not.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            state.run = None;
            Ok(())
        })
    }

    /// Sets the rank that runs from now on.
    fn enter(&self, py: Python<'_>, rank: usize) -> PyResult<()> {
        self.with(py, |state| {
            state.running()?.0.enter(rank);
            Ok(())
        })
    }

    /// Notes that a rank has returned.
    fn returned(&self, py: Python<'_>, rank: usize) -> PyResult<()> {
        self.with(py, |state| {
            state.running()?.0.returned(rank);
            Ok(())
        })
    }

    /// Fails if a rank has made a call that can never match.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| state.running()?.0.check().or_raise())
    }

    /// Performs the calls that match.
    fn meet(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |state| state.running()?.0.meet().or_raise())
    }

    /// Ends the run once all ranks have returned.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |state| {
            let run = state.run.take().ok_or_else(|| Kind::Distributed.error(NO_RUN))?.0;
            run.finish().or_raise()
        })
    }

    /// Makes a group of some ranks, called by one of them; returns its number.
    fn new_group(&self, py: Python<'_>, rank: usize, ranks: Vec<usize>) -> PyResult<usize> {
        self.run(py, move |state| {
            let group = state.worker(rank)?.new_group(&ranks).or_raise()?;
            let known = state.groups.iter().position(|other| *other == group);
            Ok(known.unwrap_or_else(|| {
                state.groups.push(group);
                state.groups.len() - 1
            }))
        })
    }

    /// Selects the SIP on which a rank's tensors are placed.
    fn set_device(&self, py: Python<'_>, rank: usize, device: usize) -> PyResult<()> {
        self.with(py, |state| state.worker(rank)?.set_device(device).or_raise())
    }

    /// Returns the number of the SIP on which a rank's tensors are placed.
    fn device(&self, py: Python<'_>, rank: usize) -> PyResult<u32> {
        self.with(py, |state| {
            let placement = state.worker(rank)?.placement();
            Ok(placement.sips.first().map_or(0, |sip| sip.number()))
        })
    }

    /// Makes a call of a rank in the world, or in a group by number. `tensors` are the input and the output.
    #[expect(clippy::too_many_arguments, reason = "a call of the package, not of people")]
    fn post(
        &self,
        py: Python<'_>,
        rank: usize,
        group: Option<usize>,
        call: &str,
        tensors: Vec<PyRef<'_, Tensor>>,
        op: &str,
        peer: usize,
        line: &str,
    ) -> PyResult<Work> {
        let shared = &self.shared;
        let handle = shared.with(py, |session| {
            let inputs = tensors.iter().map(|tensor| session.get(&tensor.owned).cloned());
            let inputs: Vec<DeviceTensor> = inputs.collect::<PyResult<_>>()?;
            let state = session.get_mut(&self.state)?;
            let worker = state.worker(rank)?.called_at(line);
            let worker = match group {
                Some(number) => worker.in_group(&state.groups[number]).or_raise()?,
                None => worker,
            };
            let handle = called(&worker, call, &inputs, op, peer)?;
            Ok(session.keep(shared, handle))
        })?;
        Ok(Work { shared: shared.clone(), handle })
    }
}

/// Reads a `ccl.yaml`, with another number of ranks if one is given.
fn ccl(name: &str, text: &str, ranks: Option<usize>, find: &Py<PyAny>) -> PyResult<CclConfig> {
    let find = |module: &str| PythonAlgorithm::find(find, module);
    let read = CclConfig::read_with(name, text, &find);
    let mut ccl = read.map_err(|error| Kind::Input.error(error.to_string()))?;
    if ranks.is_some() {
        ccl.each(|config| config.world_size = ranks);
    }
    Ok(ccl)
}

/// Reads the name of a reduction operator.
fn reduce_op(name: &str) -> PyResult<ReduceOp> {
    name.parse::<ReduceOp>().map_err(|error| Kind::Input.error(error.to_string()))
}

/// Returns whether a reduction operator is defined for an element type.
#[pyfunction]
fn suits(op: &str, dtype_name: &str) -> PyResult<bool> {
    Ok(reduce_op(op)?.suits(dtype(dtype_name)?))
}

const NO_RUN: &str = "no ranks are running: call this in a function given to spawn";

/// Makes a call by its name.
fn called(
    worker: &Worker,
    call: &str,
    tensors: &[DeviceTensor],
    op: &str,
    peer: usize,
) -> PyResult<WorkHandle> {
    let reduce = || reduce_op(op);
    Ok(match (call, tensors) {
        ("all_reduce", [tensor]) => worker.all_reduce(tensor, reduce()?),
        ("reduce", [tensor]) => worker.reduce(tensor, peer, reduce()?),
        ("broadcast", [tensor]) => worker.broadcast(tensor, peer),
        ("all_gather", [input, output]) => worker.all_gather(output, input),
        ("reduce_scatter", [input, output]) => worker.reduce_scatter(output, input, reduce()?),
        ("all_to_all", [input, output]) => worker.all_to_all(output, input),
        ("gather", [input, output]) => worker.gather(output, input, peer),
        ("scatter", [input, output]) => worker.scatter(output, input, peer),
        ("send", [tensor]) => worker.send(tensor, peer),
        ("recv", [tensor]) => worker.recv(tensor, peer),
        ("barrier", []) => worker.barrier(),
        _ => {
            return Err(
                Kind::Internal.error(format!("unknown call {call} of {} tensors", tensors.len()))
            );
        }
    })
}

impl World {
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        self.shared.with(py, |session: &mut Session| act(session.get_mut(&self.state)?))
    }

    fn run<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut State) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.shared.run(py, |session: &mut Session| act(session.get_mut(&self.state)?))
    }
}

impl State {
    fn running(&mut self) -> PyResult<&mut (Spawned, Vec<Worker>)> {
        self.run.as_mut().ok_or_else(|| Kind::Distributed.error(NO_RUN))
    }

    fn worker(&mut self, rank: usize) -> PyResult<&Worker> {
        let none = || Kind::Distributed.error(format!("there is no rank {rank}"));
        self.running()?.1.get(rank).ok_or_else(none)
    }
}

#[pymethods]
impl Work {
    /// Returns whether the call is done; raises if it has failed.
    fn is_done(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.with(py, |session| {
            let handle = session.get_mut(&self.handle)?;
            match Pin::new(handle).poll(&mut TaskContext::from_waker(Waker::noop())) {
                Poll::Ready(done) => done.or_raise().map(|()| true),
                Poll::Pending => Ok(false),
            }
        })
    }

    /// Returns the algorithm, the times of kernel and host in picoseconds, and the bytes of each rank, of a collective
    /// that is done.
    fn report(&self, py: Python<'_>) -> PyResult<Option<(&'static str, u64, u64, u64)>> {
        self.shared.with(py, |session| {
            let report = session.get(&self.handle)?.report();
            Ok(report.map(|of| (of.algorithm, of.kernel.ps(), of.host.ps(), of.bytes)))
        })
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(suits, module)?)?;
    module.add_class::<machine::Machine>()?;
    module.add_class::<World>()?;
    module.add_class::<Work>()
}
