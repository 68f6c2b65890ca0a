//! Results of commands as the tables that the commands print, for other fronts.
//!
//! ```
//! use cubeyard_cli::results;
//! use cubeyard_device::topology::Topology;
//!
//! assert!(results::topology_text(&Topology::embedded()).starts_with("2 SIPs (ring_1d"));
//! ```

use cubeyard_device::probe::{PatternReport, ProbeReport};
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_model::report::ModelReport;
use cubeyard_serve::run::ServiceRun;
use cubeyard_study::collectives::Sweep;
use cubeyard_study::levers::Levers;
use cubeyard_validate::Row;

use crate::{ccl, levers, memory, model, probe, serve, topology, validate};

pub use crate::compare::{ComparedRecords, read_record};

/// Returns the tables of `cubeyard probe`.
pub fn probe_text(report: &ProbeReport) -> String {
    probe::table::cases(report, false)
}

/// Returns the tables of `cubeyard probe --pattern`.
pub fn pattern_text(report: &PatternReport) -> String {
    probe::table::pattern(report, false)
}

/// Returns the tables of `cubeyard topology`.
pub fn topology_text(topology: &Topology) -> String {
    topology::table::render(topology, false)
}

/// Returns the tables of `cubeyard validate`.
pub fn validate_text(rows: &[Row]) -> String {
    validate::table::render(rows, false)
}

/// Returns the tables of `cubeyard model`.
pub fn model_text(report: &ModelReport) -> String {
    model::table::render(report, false)
}

/// Returns the tables of `cubeyard serve`.
pub fn service_text(found: &ServiceRun) -> String {
    serve::table::render(found, false)
}

/// Returns the page of `cubeyard serve`.
pub fn service_page(found: &ServiceRun) -> String {
    serve::page::page_of(found, None)
}

/// Returns the tables of `cubeyard ccl`.
pub fn ccl_text(sweep: &Sweep) -> String {
    ccl::table::render(sweep, false)
}

/// Returns the verdict and the tables of `--levers`, for a workload with the given name.
pub fn levers_text(measured: &Levers, title: &str) -> String {
    levers::table::render(measured, title, false)
}

/// Returns the default memory limit of a run: three quarters of the free memory of the host or its control group.
pub fn host_memory() -> Bytes {
    memory::default_limit().unwrap_or(Bytes::MAX)
}
