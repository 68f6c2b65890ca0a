//! Results of commands, for another front: as the JSON and the tables that the commands print.
//!
//! ```
//! use cubeyard_cli::results;
//! use cubeyard_device::topology::Topology;
//!
//! let machine = results::topology_json(&Topology::embedded());
//! assert_eq!(machine["pes_per_cube"], 8);
//! assert!(results::topology_text(&Topology::embedded()).starts_with("2 SIPs (ring_1d"));
//! ```

use cubeyard_collectives::distributed::sweep::Sweep;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_model::HfModel;
use cubeyard_model::report::ModelReport;
use cubeyard_validate::Row;
use serde_json::Value;

use crate::{ccl, memory, model, topology, validate};

pub use crate::compare::{ComparedRecords, read_record};
pub use crate::probe::{ProbedCase, ProbedCases, ProbedPattern, Watcher};

/// Returns the object of `cubeyard topology --format json`.
pub fn topology_json(topology: &Topology) -> Value {
    topology::json::value(topology)
}

/// Returns the tables of `cubeyard topology`.
pub fn topology_text(topology: &Topology) -> String {
    topology::table::render(topology, false)
}

/// Returns the array of `cubeyard validate --format json`.
pub fn validate_json(rows: &[Row]) -> Value {
    validate::json::value(rows)
}

/// Returns the tables of `cubeyard validate`.
pub fn validate_text(rows: &[Row]) -> String {
    validate::table::render(rows, false)
}

/// Returns the dimensions of a configuration of Hugging Face.
pub fn hf_json(model: &HfModel) -> Value {
    model::json::configuration(model)
}

/// Returns the object of `cubeyard model --format json`.
pub fn model_json(report: &ModelReport) -> Value {
    model::json::value(report)
}

/// Returns the tables of `cubeyard model`.
pub fn model_text(report: &ModelReport) -> String {
    model::table::render(report, false)
}

/// Returns the object of `cubeyard ccl --format json`.
pub fn ccl_json(sweep: &Sweep) -> Value {
    ccl::json::value(sweep)
}

/// Returns the tables of `cubeyard ccl`.
pub fn ccl_text(sweep: &Sweep) -> String {
    ccl::table::render(sweep, false)
}

/// Returns the memory that a run may use if nothing else is said: three quarters of what the host or its control group
/// has free.
pub fn host_memory() -> Bytes {
    memory::default_limit().unwrap_or(Bytes::MAX)
}
