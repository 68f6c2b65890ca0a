//! Records of runs: one JSON line each, the same for the same inputs on any host.
//!
//! A record contains everything on which its figures depend, and nothing else: no time stamp and no host name. Two
//! records with the same [`key`](Record::key) describe the same run.
//!
//! ```
//! use cubeyard_bench::record::Record;
//! use cubeyard_bench::{RunConfig, find, run};
//! use cubeyard_device::topology::Topology;
//! use cubeyard_tl::launch::Mode;
//!
//! let topology = Topology::embedded();
//! let set = vec!["elements=4096".to_owned()];
//! let config = RunConfig { topology, set, data: false, mode: Mode::Recorded, sips: vec![], ops: false };
//! let run = run(&*find("vector-add")?, &config)?;
//! let record = Record::of(&run);
//! assert_eq!(record.inputs["elements"], 4096);
//! assert_eq!(Record::read(&record.line())?, record);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use thiserror::Error;

use cubeyard_device::topology::Topology;
use cubeyard_sim::Span;
use cubeyard_tl::program::Finding;
use cubeyard_yaml::PlainValue;

use crate::figures::checked;
use crate::report::{Bound, RunReport, SliceKind, UnitUse};
use crate::{Run, RunInputs, Value};

pub use crate::op_table::OpTable;

/// Version of the format. It is incremented when the meaning of a field changes.
pub const FORMAT: u32 = 1;

/// Version of the program that creates records.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Inputs of a run with its figures, or with the error that ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the format; [`FORMAT`].
    pub format: u32,
    /// Version of the program whose model produced the figures.
    pub version: String,
    /// Command that created the record, unless it is `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Name of the bench or function.
    pub bench: String,
    /// Hash of the bench's source, if it is not built in.
    pub source: Option<String>,
    /// Hash of the machine, from [`Topology::content_hash`].
    pub topology: String,
    /// Parameters and options by name, with the defaults filled in.
    pub inputs: Map<String, serde_json::Value>,
    /// Figures of the run by name; `None` if it failed.
    pub figures: Option<Map<String, serde_json::Value>>,
    /// Error of a run that failed.
    pub error: Option<String>,
    /// Values of the machine in the structure of a topology file, if they are included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<serde_json::Value>,
    /// Every operation of every unit, if they are included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<OpTable>,
}

/// Error of a line that is not a record of this version. Records of another version must be created again.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The line is not a record, such as the last line of a file whose writer was killed.
    #[error("not a record: {0}")]
    Form(#[from] serde_json::Error),
    /// The record has another format.
    #[error(
        "a record of format {0}; this version reads format {FORMAT}: make it again, or use the version that made it"
    )]
    Format(u64),
}

impl Record {
    /// Creates a record without figures.
    pub fn new(inputs: &RunInputs) -> Self {
        Self::named(inputs.bench.clone(), inputs.topology.clone(), of_inputs(inputs))
    }

    /// Creates a record without figures for a bench or function, on the machine with the given hash.
    pub fn named(bench: String, topology: String, inputs: Map<String, serde_json::Value>) -> Self {
        let (format, version) = (FORMAT, VERSION.to_owned());
        let (command, source, figures, error, machine, ops) = (None, None, None, None, None, None);
        Self {
            format,
            version,
            command,
            bench,
            source,
            topology,
            inputs,
            figures,
            error,
            machine,
            ops,
        }
    }

    /// Creates the record of a command other than `run`, with the values of the machine.
    pub fn of_command(
        command: &str,
        bench: &str,
        topology: &Topology,
        inputs: Map<String, serde_json::Value>,
    ) -> Self {
        let hash = topology.content_hash().to_string();
        let command = Some(command.to_owned());
        Self { command, ..Self::named(bench.to_owned(), hash, inputs) }.on(topology)
    }

    /// Adds the values of the machine.
    #[must_use]
    pub fn on(self, topology: &Topology) -> Self {
        Self { machine: Some(plain_json(topology.values())), ..self }
    }

    /// Adds every operation of a run, if they were recorded.
    #[must_use]
    pub fn with_ops(self, run: &Run) -> Self {
        Self { ops: run.log.as_ref().map(OpTable::of), ..self }
    }

    /// Creates the record of a run.
    pub fn of(run: &Run) -> Self {
        Self::new(&run.inputs).with(&run.report, &run.findings)
    }

    /// Adds the figures of a run.
    #[must_use]
    pub fn with(self, report: &RunReport, findings: &[Finding]) -> Self {
        Self { figures: Some(figures(report, findings)), ..self }
    }

    /// Parses a record from a line.
    pub fn read(line: &str) -> Result<Self, RecordError> {
        let value: serde_json::Value = serde_json::from_str(line)?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format != u64::from(FORMAT) => Err(RecordError::Format(format)),
            _ => Ok(serde_json::from_value(value)?),
        }
    }

    /// Returns the record as one line of JSON, without the newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record has text keys and finite numbers")
    }

    /// Returns a text that is equal for records of the same run. It contains format, version, command, source, inputs
    /// and the hash of the machine.
    pub fn key(&self) -> String {
        let Self { command, bench, source, topology, inputs, .. } = self.clone();
        let (format, version) = (self.format, self.version.clone());
        Self { format, version, command, source, ..Self::named(bench, topology, inputs) }.line()
    }
}

fn of_inputs(inputs: &RunInputs) -> Map<String, serde_json::Value> {
    let sips: Vec<_> = inputs.sips.iter().map(|sip| sip.index()).collect();
    let options =
        [("data", json!(inputs.data)), ("live", json!(inputs.live)), ("sips", json!(sips))];
    // Options begin with two hyphens, as on the command line: a parameter may have the same name.
    let options = options.into_iter().map(|(name, value)| (format!("--{name}"), value));
    let values = inputs.values.iter().map(|(name, value)| (name.clone(), plain(value)));
    values.chain(options).collect()
}

/// Returns a value as a number if it is one, and as text otherwise.
fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Whole(number) => json!(number),
        Value::Integer(number) => json!(number),
        Value::Number(number) => json!(number),
        other => json!(other.to_string()),
    }
}

/// Returns the time of each kind of work on the critical path; `null` if operations were not recorded.
fn path(report: &RunReport) -> serde_json::Value {
    let part = |(kind, span): &(SliceKind, Span)| (kind.name().to_owned(), json!(span.ns()));
    let parts: Map<_, _> = report.breakdown.iter().map(part).collect();
    if parts.is_empty() { serde_json::Value::Null } else { parts.into() }
}

/// Returns the mean utilisation of each kind of unit.
fn utilisation(report: &RunReport) -> serde_json::Value {
    let unit = |it: &UnitUse| (it.unit.clone(), json!(it.mean));
    report.units.iter().map(unit).collect::<Map<_, _>>().into()
}

/// Returns a value of a topology file as JSON.
pub fn plain_json(value: &PlainValue) -> serde_json::Value {
    match value {
        PlainValue::Flag(flag) => json!(flag),
        PlainValue::Whole(number) => json!(number),
        PlainValue::Number(number) => json!(number),
        PlainValue::Text(text) => json!(text),
        PlainValue::List(list) => list.iter().map(plain_json).collect(),
        PlainValue::Map(entries) => {
            let entry = |(key, value): &(String, PlainValue)| (key.clone(), plain_json(value));
            entries.iter().map(entry).collect::<Map<_, _>>().into()
        }
    }
}

fn figures(report: &RunReport, findings: &[Finding]) -> Map<String, serde_json::Value> {
    let bound = |bound: &Bound| (bound.resource.clone(), json!(bound.span.ns()));
    let bounds: Map<_, _> = report.bounds.iter().map(bound).collect();
    let figures = [
        ("kernel_ns", json!(report.kernel.ns())),
        ("host_ns", json!(report.host.ns())),
        ("pes", json!(report.pes)),
        ("read_bytes", json!(report.traffic.read)),
        ("written_bytes", json!(report.traffic.written)),
        ("flop", json!(report.flop)),
        ("share_of_bound", json!(report.share())),
        ("bounds_ns", json!(bounds)),
        ("path_ns", path(report)),
        ("utilisation", utilisation(report)),
        ("limited_by", json!(report.limited_by)),
        ("check", checked(report)),
        ("findings", json!(findings.len())),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
