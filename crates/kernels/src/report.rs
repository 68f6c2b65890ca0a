//! What a run of a bench took and why: plain data, and a page that shows it.
//!
//! [`RunReport`] is filled by whoever ran the bench. [`page`] draws it as one HTML page that needs
//! nothing else: no script, font or style sheet from elsewhere.
//!
//! ```
//! use cubeyard_kernels::report::{Bound, RunReport, page};
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
//!     "Limited by the HBM of each PE. HBM of a PE alone would need 150 ns of the 200 ns (75 %)."
//! );
//! assert!(page(&report).starts_with("<!DOCTYPE html>"));
//! ```

pub(crate) mod axis;
mod bounds;
mod breakdown;
mod derived;
pub(crate) mod markup;
mod merge;
mod page;
mod roofline;
mod timeline;
mod utilisation;

use cubeyard_sim::Span;

pub use self::page::page;

/// A run of a bench: what was asked, what it took, and where the time went.
///
/// Every instant is a span since the start instant of the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunReport {
    /// The name of the bench.
    pub bench: String,
    /// What it computes, in a sentence.
    pub summary: String,
    /// What it was asked to do: names and values, in the order to show them.
    pub parameters: Vec<(String, String)>,
    /// The machine in words: `2 SIPs × 16 cubes × 8 PEs`.
    pub machine: String,
    /// How many PEs took part.
    pub pes: usize,
    /// From the start instant to the end of the last PE.
    pub kernel: Span,
    /// From the host's first launch to the last completion.
    pub host: Span,
    /// Bytes moved by the DMA engines of all PEs.
    pub traffic: Traffic,
    /// Floating-point operations of all PEs.
    pub flop: u64,
    /// The least time each resource alone allows.
    pub bounds: Vec<Bound>,
    /// FLOP/s of all PEs that took part, at most; 0 if the bench has no use for them.
    pub peak_rate: f64,
    /// Bytes/s that the memories of these PEs give, at most.
    pub peak_bandwidth: f64,
    /// What limits it, as it would follow "limited by": `DMA of B tiles`.
    pub limited_by: String,
    /// How busy each kind of unit was.
    pub units: Vec<UnitUse>,
    /// What units of a few PEs did when.
    pub lanes: Vec<Lane>,
    /// The chain of steps that decided how long it took: without a gap, from the start to the end of
    /// the kernel.
    pub critical: Vec<Step>,
    /// What kind of work the critical path consists of.
    pub breakdown: Vec<(SliceKind, Span)>,
    /// How the results compare with a reference, where they were computed.
    pub check: Option<Check>,
    /// Launches that ran at once, one such set after the other, and how long each took.
    pub launches: Vec<(String, Span)>,
    /// What else a reader should know.
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

/// The least time that one resource allows, whatever the order of the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Which resource: `HBM of a PE`, `GEMM f16`, `UCIe connection`.
    pub resource: String,
    /// How long it needs if it never waits for anything else.
    pub span: Span,
}

/// How busy units of one kind were, as shares of the kernel time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitUse {
    /// Which kind: `PE_CPU`, `DMA read`, `GEMM`, `HBM`.
    pub unit: String,
    /// The mean over the PEs that took part.
    pub mean: f64,
    /// That of the busiest one.
    pub max: f64,
    /// The name of the busiest one.
    pub busiest: String,
}

/// What one unit did when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The place, a space and the unit: `sip0.cube0.pe0 DMA read`. Neighbours of one place are drawn
    /// together.
    pub name: String,
    /// What it did, best in the order of time.
    pub slices: Vec<Slice>,
}

/// One piece of work of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// When it began.
    pub start: Span,
    /// When it was done.
    pub end: Span,
    /// How long the unit worked in that time.
    pub busy: Span,
    /// What kind of work it was.
    pub kind: SliceKind,
    /// What it was, for people.
    pub name: String,
}

/// One step of the critical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When it began.
    pub start: Span,
    /// When it was done: where the next one begins.
    pub end: Span,
    /// What was done: `DMA read of B (k 3, n 0)`.
    pub what: String,
    /// What kind of work that was.
    pub kind: SliceKind,
    /// The line of the kernel that asked for it: `softmax.rs:41`.
    pub place: String,
    /// Why it could not be done earlier.
    pub why: String,
    /// Where the time of an access went, where that is known.
    pub access: Option<AccessTime>,
}

/// Where the time of a DMA access went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessTime {
    /// Nodes that looked at it on its way, and the wires between them.
    pub overhead: Span,
    /// Its bytes went onto links.
    pub serialisation: Span,
    /// The memory moved its bursts.
    pub service: Span,
    /// More bursts, because its rows do not follow each other.
    pub rows: Span,
    /// What it took beyond all that, which it takes alone: it was behind other traffic.
    pub waiting: Span,
}

/// A kind of work, which has its name and colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SliceKind {
    /// The processor of a PE executes the kernel's own instructions.
    Cpu,
    /// A DMA engine reads into the TCM.
    DmaRead,
    /// A DMA engine writes from the TCM.
    DmaWrite,
    /// Operands come from the TCM to an engine.
    Fetch,
    /// The GEMM engine multiplies.
    Gemm,
    /// The vector engine computes.
    Math,
    /// Results go from an engine to the TCM.
    Store,
    /// A message goes from one PE to another.
    Message,
    /// Nothing is done until something else is.
    Wait,
}

/// How the results compare with a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Check {
    /// How many elements were compared.
    pub elements: u64,
    /// The largest error of any.
    pub worst: f64,
    /// The largest error that passes.
    pub tolerance: f64,
}

#[cfg(test)]
mod tests;
