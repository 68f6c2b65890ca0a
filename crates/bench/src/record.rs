//! Records of runs: one JSON line each, the same for the same inputs on any host.
//!
//! A record holds everything on which its figures depend, and nothing else: no time stamp, no name of a host. Two
//! records with the same [`key`](Record::key) are of the same run.
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

use cubeyard_tl::program::Finding;

use crate::json::checked;
use crate::report::{Bound, RunReport};
use crate::{Run, RunInputs, Value};

/// Version of the format. It grows when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// Version of the program that makes records.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Inputs of a run with its figures, or with the error that it ended with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of the format; [`FORMAT`].
    pub format: u32,
    /// Version of the program whose model gave the figures.
    pub version: String,
    /// Name of the bench or function.
    pub bench: String,
    /// Hash of its source, if it is not built in.
    pub source: Option<String>,
    /// Hash of the machine, of [`Topology::content_hash`](cubeyard_device::topology::Topology::content_hash).
    pub topology: String,
    /// Parameters and options by name, with the defaults filled in.
    pub inputs: Map<String, serde_json::Value>,
    /// Figures of the run by name; `None` if it failed.
    pub figures: Option<Map<String, serde_json::Value>>,
    /// Error of a run that failed.
    pub error: Option<String>,
}

/// The error of a line that is no record of this version. Records of another version must be made again.
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
    /// Makes a record without figures.
    pub fn new(inputs: &RunInputs) -> Self {
        Self {
            format: FORMAT,
            version: VERSION.to_owned(),
            bench: inputs.bench.clone(),
            source: None,
            topology: inputs.topology.clone(),
            inputs: of_inputs(inputs),
            figures: None,
            error: None,
        }
    }

    /// Makes the record of a run.
    pub fn of(run: &Run) -> Self {
        Self::new(&run.inputs).with(&run.report, &run.findings)
    }

    /// Adds the figures of a run.
    #[must_use]
    pub fn with(self, report: &RunReport, findings: &[Finding]) -> Self {
        Self { figures: Some(figures(report, findings)), ..self }
    }

    /// Reads a line.
    pub fn read(line: &str) -> Result<Self, RecordError> {
        let value: serde_json::Value = serde_json::from_str(line)?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format != u64::from(FORMAT) => Err(RecordError::Format(format)),
            _ => Ok(serde_json::from_value(value)?),
        }
    }

    /// Returns the record as one line of JSON, without the end of the line.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record has text keys and finite numbers")
    }

    /// Returns a text that is equal for records of the same run: format, version, source, machine and inputs.
    pub fn key(&self) -> String {
        Self { figures: None, error: None, ..self.clone() }.line()
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

/// Returns a value as a number where it is one, and else as text.
fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Whole(number) => json!(number),
        Value::Integer(number) => json!(number),
        Value::Number(number) => json!(number),
        other => json!(other.to_string()),
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
        ("limited_by", json!(report.limited_by)),
        ("check", checked(report)),
        ("findings", json!(findings.len())),
    ];
    figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
