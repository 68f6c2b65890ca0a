//! The machine of a world whose ranks run elsewhere.

use std::ops::Range;
use std::rc::Rc;

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::service::{
    Action, Answer, Call, Fabric, Memory, Record, Service, ServiceError,
};
use cubeyard_runtime::{Context, ContextConfig};
use cubeyard_sim::Time;
use cubeyard_tl::launch::Launcher;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::bytes::{contiguous, dtype};
use crate::error::{IntoPyErr, Kind, OrRaise};
use crate::session::{Owned, Shared};
use crate::topology::Topology;

/// Matches, performs and records the calls of a world's ranks.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Machine {
    shared: Shared,
    service: Owned<Service>,
    /// Called before and after a simulation.
    notice: Py<PyAny>,
}

/// A call as the front describes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Fields {
    rank: usize,
    group: String,
    members: Vec<usize>,
    name: String,
    dtype: String,
    count: u64,
    op: String,
    root: i64,
    tag: i64,
    splits: [Vec<u64>; 2],
    ready_ps: u64,
    timeout: f64,
    at: String,
    elements: u64,
}

/// Number of a call, start and end in picoseconds, error, and the place of the sender or -1.
type Answered = (u64, u64, u64, String, i64);

/// Fields of `cubeyard.collectives.world.records.Record`, in their order.
type Row = (String, Vec<usize>, &'static str, u64, &'static str, f64, f64, f64, String, String);

#[pymethods]
impl Machine {
    /// Makes the machine of `size` ranks by a `ccl.yaml`, with the channels of the group of all ranks installed.
    #[new]
    fn new(
        py: Python<'_>,
        topology: &Topology,
        name: &str,
        text: &str,
        size: usize,
        find: Py<PyAny>,
        notice: Py<PyAny>,
    ) -> PyResult<Self> {
        let topology = topology.topology.clone();
        let shared = py.detach(|| {
            let context = Context::new(ContextConfig { topology, ..Default::default() });
            let launcher = Rc::new(Launcher::new(&context));
            Shared::of(context, launcher, None)
        });
        let service = shared.run(py, |session| {
            let ccl = super::ccl(name, text, Some(size), &find)?;
            let fabric = Fabric::new(&session.context, ccl).or_raise()?;
            Ok(session.keep(&shared, Service::new(fabric, size)))
        })?;
        Ok(Self { shared, service, notice })
    }

    /// Takes a call of a rank; returns the answers of all calls that are done.
    ///
    /// `place` has start and size of the input, and of the output, in the memory; `now` is the time of the host in seconds.
    fn post(
        &self,
        py: Python<'_>,
        id: u64,
        fields: Fields,
        memory: Option<Bound<'_, PyAny>>,
        place: [usize; 4],
        now: f64,
    ) -> PyResult<Vec<Answered>> {
        let call = fields.call(id, memory_of(memory, place)?)?;
        let notice = |is_busy: bool| Python::attach(|py| drop(self.notice.call1(py, (is_busy,))));
        self.shared.run(py, |session| {
            let service = session.get_mut(&self.service)?;
            let (text, mut done) = (call.to_string(), Vec::new());
            if let Err(error) = service.post(call, now, &notice, &mut done) {
                done.extend(service.fail(&format!("{text}: {}", told(error)?)));
            }
            Ok(done.into_iter().map(answered).collect())
        })
    }

    /// Notes that a rank makes no further calls; returns the answers of calls that fail by it.
    fn leave(&self, py: Python<'_>, rank: usize) -> PyResult<Vec<Answered>> {
        self.answers(py, |service| service.leave(rank))
    }

    /// Notes that a rank has ended without leaving; returns the answers of calls that fail by it.
    fn lose(&self, py: Python<'_>, rank: usize, why: &str) -> PyResult<Vec<Answered>> {
        self.answers(py, |service| service.lose(rank, why))
    }

    /// Returns the answers of all calls, if one has waited for too long.
    fn expire(&self, py: Python<'_>, now: f64) -> PyResult<Vec<Answered>> {
        self.answers(py, |service| service.expire(now))
    }

    /// Returns the host time, in seconds, at which the first pending call times out.
    fn next_deadline(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.with(py, |service| service.next_deadline())
    }

    /// Returns the collectives that were performed.
    fn records(&self, py: Python<'_>) -> PyResult<Vec<Row>> {
        self.with(py, |service| service.records().iter().map(row).collect())
    }
}

impl Machine {
    fn with<T>(&self, py: Python<'_>, act: impl FnOnce(&mut Service) -> T) -> PyResult<T> {
        self.shared.with(py, |session| Ok(act(session.get_mut(&self.service)?)))
    }

    fn answers(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&mut Service) -> Vec<(u64, Answer)>,
    ) -> PyResult<Vec<Answered>> {
        self.with(py, |service| act(service).into_iter().map(answered).collect())
    }
}

impl Fields {
    fn call(self, id: u64, memory: Box<dyn Memory>) -> PyResult<Call> {
        let (action, dtype) = (self.action()?, dtype(&self.dtype)?);
        let splits = (!self.splits[0].is_empty()).then_some(self.splits);
        Ok(Call {
            id,
            group: self.group,
            dtype,
            count: self.count,
            splits,
            ready: Time::from_ps(self.ready_ps),
            timeout: self.timeout,
            at: self.at,
            elements: self.elements,
            ..Call::new(self.rank, self.members, action, memory)
        })
    }

    fn action(&self) -> PyResult<Action> {
        let peer = usize::try_from(self.root).ok();
        let malformed =
            || Kind::Input.error(format!("{}: expected a rank, found {}", self.name, self.root));
        Ok(match &*self.name {
            "barrier" => Action::Barrier,
            "send" => Action::Send(peer.ok_or_else(malformed)?, self.tag),
            "recv" => Action::Receive(peer, self.tag),
            name => {
                let op =
                    if self.op.is_empty() { ReduceOp::Sum } else { super::reduce_op(&self.op)? };
                let root = peer.ok_or_else(malformed)?;
                let operation = Operation::named(name, op, root);
                Action::Collective(operation.map_err(|error| Kind::Input.error(error.to_string()))?)
            }
        })
    }
}

/// Returns the text of an error that ends the world; raises one that ends the call alone, such as Ctrl-C.
fn told(error: ServiceError) -> PyResult<String> {
    let error = match error {
        ServiceError::Malformed(_) => return Err(Kind::Input.error(error.to_string())),
        ServiceError::Machine(error) => error.into_py_err(),
        ServiceError::Uneven { .. } | ServiceError::Memory { .. } => {
            Kind::Distributed.error(error.to_string())
        }
    };
    Python::attach(|py| {
        let is_told = error.is_instance_of::<PyException>(py);
        if is_told { Ok(error.value(py).to_string()) } else { Err(error) }
    })
}

fn answered((id, answer): (u64, Answer)) -> Answered {
    let source = answer.source.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1);
    (id, answer.start.ps(), answer.end.ps(), answer.error.unwrap_or_default(), source)
}

fn row(record: &Record) -> Row {
    let Record { operation, ranks, dtype, bytes, algorithm, start, duration, .. } = record;
    let (start, duration) = (start.ns(), duration.ns());
    let (operation, ranks, dtype) = (operation.clone(), ranks.clone(), dtype.name());
    let (group, at) = (record.group.clone(), record.at.clone());
    (operation, ranks, dtype, *bytes, algorithm, start, duration, record.bus_gbs, group, at)
}

/// Parts of a Python buffer.
struct Parts {
    buffer: Option<PyBuffer<u8>>,
    input: Range<usize>,
    output: Range<usize>,
}

fn memory_of(memory: Option<Bound<'_, PyAny>>, place: [usize; 4]) -> PyResult<Box<dyn Memory>> {
    let buffer = memory.map(|memory| contiguous(&memory)).transpose()?;
    let size = buffer.as_ref().map_or(0, |buffer| buffer.item_count());
    let [input, output] = [[place[0], place[1]], [place[2], place[3]]]
        .map(|[start, length]| start..start.saturating_add(length));
    let is_writable = buffer.as_ref().is_none_or(|buffer| !buffer.readonly());
    if input.end > size || output.end > size || !is_writable {
        let text =
            format!("bytes {input:?} and {output:?}: expected parts of {size} writable bytes");
        return Err(Kind::Input.error(text));
    }
    Ok(Box::new(Parts { buffer, input, output }))
}

// SAFETY of both slices: the buffer keeps its memory alive, and `memory_of` has checked the ranges. The rank that shares
// the memory leaves it alone until its call is answered; another process of the same user that breaks this promise changes
// the numbers that are read.
#[expect(unsafe_code, reason = "the safety comment above")]
impl Memory for Parts {
    fn input(&self) -> &[u8] {
        let Some(buffer) = &self.buffer else { return &[] };
        let start = buffer.buf_ptr().cast::<u8>();
        unsafe { std::slice::from_raw_parts(start.add(self.input.start), self.input.len()) }
    }

    fn output(&mut self) -> &mut [u8] {
        let Some(buffer) = &self.buffer else { return &mut [] };
        let start = buffer.buf_ptr().cast::<u8>();
        unsafe { std::slice::from_raw_parts_mut(start.add(self.output.start), self.output.len()) }
    }

    fn output_len(&self) -> usize {
        self.output.len()
    }
}
