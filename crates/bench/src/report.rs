//! Results of a bench run as plain data, and an HTML page that shows them.
//!
//! [`RunReport`] is filled by the code that ran the bench. [`page`] draws it as one self-contained HTML page,
//! without external scripts, fonts or style sheets; [`page_with`] adds every operation of the run.
//!
//! ```
//! use cubeyard_bench::report::{Bound, RunReport, page};
//! use cubeyard_sim::Span;
//!
//! let report = RunReport {
//!     bench: "copy".to_owned(),
//!     kernel: Span::from_ps(200_000),
//!     bounds: vec![Bound { resource: "HBM of a PE".to_owned(), span: Span::from_ps(150_000) }],
//!     limited_by: "the HBM of each PE".to_owned(),
//!     ..RunReport::default()
//! };
//! assert_eq!(report.share(), 0.75);
//! assert_eq!(
//!     report.verdict(),
//!     "Limited by the HBM of each PE. Alone, HBM of a PE would need 150 ns of the 200 ns (75 %)."
//! );
//! assert!(page(&report).starts_with("<!DOCTYPE html>"));
//! ```

mod bounds;
mod breakdown;
mod derived;
mod line_table;
mod lines;
pub(crate) mod markup;
mod merge;
mod operations;
mod page;
mod roofline;
mod timeline;
mod utilisation;

use cubeyard_device::serial::ns;
use cubeyard_sim::Span;
use serde::Serialize;

pub use self::lines::LineSteps;
pub use self::operations::Timeline;
pub use self::page::{Answer, page, page_with};

pub(crate) use self::operations::Operation;

/// Results of a bench run: its parameters, its times, and the critical path.
///
/// Every instant is a span since the start of the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunReport {
    /// Name of the bench.
    pub bench: String,
    /// One-sentence description of the computation.
    pub summary: String,
    /// Names and values of the bench's parameters, in display order.
    pub parameters: Vec<(String, String)>,
    /// Description of the machine, e.g. `2 SIPs × 16 cubes × 8 PEs`.
    pub machine: String,
    /// Number of PEs that took part.
    pub pes: usize,
    /// Time from the start of the first PE to the end of the last.
    pub kernel: Span,
    /// Time from the host's first launch to the last completion.
    pub host: Span,
    /// Bytes moved by the DMA engines of all PEs.
    pub traffic: Traffic,
    /// Floating-point operations of all PEs.
    pub flop: u64,
    /// Minimum time that each resource alone allows.
    pub bounds: Vec<Bound>,
    /// Peak FLOP/s of all PEs that took part; 0 if the bench does not compute.
    pub peak_rate: f64,
    /// Peak memory bandwidth of these PEs, in bytes per second.
    pub peak_bandwidth: f64,
    /// Limiting factor, worded to follow "limited by", e.g. `DMA of B tiles`.
    pub limited_by: String,
    /// Utilisation of each kind of unit.
    pub units: Vec<UnitUse>,
    /// Timelines of the units of a few PEs.
    pub lanes: Vec<Lane>,
    /// Critical path: a gapless chain of steps from the start to the end of the kernel.
    pub critical: Vec<Step>,
    /// Time of each kind of work on the critical path.
    pub breakdown: Vec<(SliceKind, Span)>,
    /// Comparison of the results with a reference, if they were computed.
    pub check: Option<Check>,
    /// Outcome of the bench's own assertions, if it checks itself; the error names the assertion that failed.
    pub assertions: Option<Result<(), String>>,
    /// Phases (launches that overlap in time) in order, each with its duration.
    pub launches: Vec<(String, Span)>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// Bytes moved by DMA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read into TCMs.
    pub read: u64,
    /// Bytes written from TCMs.
    pub written: u64,
}

/// Minimum time that one resource allows, whatever the order of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Name of the resource, e.g. `HBM of a PE`, `GEMM f16`, `UCIe connection`.
    pub resource: String,
    /// Busy time of the resource if it never waits.
    pub span: Span,
}

/// Utilisation of units of one kind, as fractions of the kernel time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UnitUse {
    /// Kind of unit, e.g. `PE_CPU`, `DMA read`, `GEMM`, `HBM`.
    pub unit: String,
    /// Mean utilisation over the PEs that took part.
    pub mean: f64,
    /// Utilisation of the busiest unit.
    pub max: f64,
    /// PE of the busiest unit.
    pub busiest: String,
}

/// Timeline of one unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// PE and unit, separated by a space, e.g. `sip0.cube0.pe0 DMA read`. Adjacent lanes of one PE are drawn
    /// together.
    pub name: String,
    /// Slices of work, preferably in order of time.
    pub slices: Vec<Slice>,
}

/// One continuous piece of work of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Start of the slice.
    #[serde(rename = "start_ns", serialize_with = "ns")]
    pub start: Span,
    /// End of the slice.
    #[serde(rename = "end_ns", serialize_with = "ns")]
    pub end: Span,
    /// Busy time of the unit within the slice.
    #[serde(skip)]
    pub busy: Span,
    /// Kind of the work.
    pub kind: SliceKind,
    /// Description of the work for the reader.
    pub name: String,
}

/// One step of the critical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Start of the step.
    pub start: Span,
    /// End of the step, at which the next one begins.
    pub end: Span,
    /// Description of the work, e.g. `DMA read of B (k 3, n 0)`.
    pub what: String,
    /// Kind of the work.
    pub kind: SliceKind,
    /// Kernel line that issued the step, e.g. `softmax.rs:41`.
    pub place: String,
    /// Reason for the step's start time: the cause that delayed it until then.
    pub why: String,
    /// Composition of the time of an access, if it is known.
    pub access: Option<AccessTime>,
}

/// Composition of the time of a DMA access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessTime {
    /// Overhead of the nodes on the route, and propagation delay on the wires.
    #[serde(rename = "overhead_ns", serialize_with = "ns")]
    pub overhead: Span,
    /// Serialisation of the bytes onto links.
    #[serde(rename = "serialisation_ns", serialize_with = "ns")]
    pub serialisation: Span,
    /// Service time of the bursts in the memory.
    #[serde(rename = "service_ns", serialize_with = "ns")]
    pub service: Span,
    /// Extra bursts because rows are not contiguous.
    #[serde(rename = "rows_ns", serialize_with = "ns")]
    pub rows: Span,
    /// Remaining time beyond that on an idle machine: waiting behind other traffic.
    #[serde(rename = "waiting_ns", serialize_with = "ns")]
    pub waiting: Span,
}

/// Kind of work, with a name and a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SliceKind {
    /// A PE's processor executes the kernel's own instructions.
    Cpu,
    /// A DMA engine reads into the TCM.
    DmaRead,
    /// A DMA engine writes from the TCM.
    DmaWrite,
    /// Operands move from the TCM to an engine.
    Fetch,
    /// The matrix unit multiplies.
    Gemm,
    /// The vector unit computes.
    Math,
    /// Results move from an engine to the TCM.
    Store,
    /// A message travels from one PE to another.
    Message,
    /// Idle until another operation ends.
    Wait,
}

/// Comparison of the results with a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check {
    /// Number of elements compared.
    pub elements: u64,
    /// Largest error of any element.
    pub worst: f64,
    /// Largest error that passes.
    pub tolerance: f64,
}

#[cfg(test)]
mod tests;
