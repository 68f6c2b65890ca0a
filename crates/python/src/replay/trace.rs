//! Class `RecordedTrace`, and the reading of traces.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use cubeyard_cli::{Input, Names};
use cubeyard_memory::Bytes;
use cubeyard_replay::trace::Event;
use pyo3::prelude::*;

use super::worker::{self, Told};
use super::{memory_limit, refusal};

/// A recorded trace, with its file if it has one.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct RecordedTrace(pub(crate) Arc<Input>);

/// Kind, allocation, size, stream and time of each event; frees have neither size nor stream.
type Columns = (Vec<&'static str>, Vec<u32>, Vec<Option<u64>>, Vec<Option<u32>>, Vec<u64>);

#[pymethods]
impl RecordedTrace {
    #[getter]
    fn name(&self) -> &str {
        &self.0.trace.name
    }

    #[getter]
    fn file(&self) -> Option<PathBuf> {
        self.0.file.clone()
    }

    /// Number of allocations and frees.
    #[getter]
    fn events(&self) -> usize {
        self.0.trace.events.len()
    }

    #[getter]
    fn allocations(&self) -> u32 {
        self.0.trace.allocations
    }

    #[getter]
    fn recorded_by(&self) -> Option<String> {
        self.0.trace.recording.as_ref().map(|recording| recording.by.to_string())
    }

    #[getter]
    fn recorded_reserved_bytes(&self) -> Option<u64> {
        self.0.trace.recorded_reserved().map(Bytes::get)
    }

    /// Returns the columns of the table of events.
    fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for event in &self.0.trace.events {
            let (action, id, size, stream) = match event {
                Event::Allocate(request) => {
                    ("alloc", request.id, Some(request.size.get()), Some(request.stream))
                }
                Event::Free { id, .. } => ("free", *id, None, None),
            };
            columns.0.push(action);
            columns.1.push(id.0);
            columns.2.push(size);
            columns.3.push(stream);
            columns.4.push(event.time_us());
        }
        columns
    }
}

/// Source of traces: a file, or bytes with a name.
#[derive(FromPyObject)]
pub(crate) enum Source {
    Bytes((String, Vec<u8>)),
    File(PathBuf),
}

/// Reads the traces of each source.
#[pyfunction]
pub(crate) fn read_traces(
    py: Python<'_>,
    sources: Vec<Source>,
    limit: Option<u64>,
) -> PyResult<Vec<Vec<RecordedTrace>>> {
    let limit = memory_limit(limit);
    worker::run(py, &mut Told::new(0, None), move |ticket| {
        let (mut names, mut left) = (Names::default(), limit);
        let each = |source| {
            ticket.advance(0);
            let inputs = read(source, &mut names, left).map_err(|error| refusal(&error))?;
            left = left.saturating_sub(inputs.iter().map(|input| input.trace.memory()).sum());
            Ok(inputs.into_iter().map(|input| RecordedTrace(Arc::new(input))).collect())
        };
        sources.into_iter().map(each).collect()
    })?
}

/// Reads the trace that comes with the package: ResNet-50 in training.
#[pyfunction]
pub(crate) fn bundled_trace() -> PyResult<RecordedTrace> {
    let inputs = cubeyard_cli::bundled_trace(Bytes::MAX).map_err(|error| refusal(&error))?;
    let input = inputs.into_iter().next().expect("the bundled file holds a trace");
    Ok(RecordedTrace(Arc::new(input)))
}

fn read(source: Source, names: &mut Names, limit: Bytes) -> cubeyard_cli::Result<Vec<Input>> {
    match source {
        Source::File(file) => cubeyard_cli::read_traces(&file, names, limit),
        Source::Bytes((name, bytes)) => {
            let traces = cubeyard_cli::parse_traces(Cursor::new(bytes), &name, &name, limit)?;
            Ok(traces.into_iter().map(|trace| Input { file: None, trace }).collect())
        }
    }
}
