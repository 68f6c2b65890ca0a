//! Measures latency and bandwidth of a machine's fabric (ADR-0049).
//!
//! A *case* is one transfer on a fresh machine: between the host and near or far cubes, or between a PE's DMA engine
//! and near or far memories, in both directions. Each case is measured, compared with the closed form, and swept over
//! sizes. [`invariants`] checks properties that hold on any sound machine.

mod cases;
mod explained;
mod invariants;
mod pattern;
mod stopped;

pub use cases::{Case, Category, cases};
pub use explained::{NamedStep, Watcher};
pub use invariants::{Invariant, invariants};
pub use pattern::{HeldUp, LinkUse, Pattern, PatternReport, Planned, TransferReport};
pub use stopped::RunError;

use cubeyard_sim::{Bandwidth, Span};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::formula::LatencyParts;
use crate::log::Watch;
use crate::machine::Machine;
use crate::message::RequestId;
use crate::request::RequestError;
use crate::serial::{gbs, ns};
use crate::topology::Topology;

/// Transfer size at which cases are compared, in bytes.
pub const REFERENCE_BYTES: u64 = 32 << 10;

/// Transfer sizes of the sweep, in bytes.
pub const SWEEP_BYTES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Measurement of one transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of bytes moved.
    pub bytes: u64,
    /// Time from the request to its completion.
    pub latency: Span,
    /// Latency on an idle machine by the closed form, split into parts.
    pub unloaded: LatencyParts,
    /// Bandwidth of the slowest link or memory on the route.
    pub bottleneck: Bandwidth,
}

impl Measured {
    /// Returns the time by which the latency exceeds the latency on an idle machine.
    pub fn wait(&self) -> Span {
        self.latency.saturating_sub(self.unloaded.total())
    }

    /// Returns the bytes divided by the latency, in 10⁹ bytes per second.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / self.latency.ns()
    }

    /// Returns the achieved share of the bottleneck's bandwidth.
    pub fn utilisation(&self) -> f64 {
        self.gb_per_second() / self.bottleneck.gb_per_second()
    }
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let parts = &self.unloaded;
        let breakdown = json!({
            "overhead_ns": parts.overhead.ns(),
            "wire_ns": parts.wire.ns(),
            "serialisation_ns": parts.serialisation.ns(),
            "service_ns": parts.service.ns(),
            "wait_ns": self.wait().ns(),
        });
        let measured = json!({
            "bytes": self.bytes,
            "formula_ns": parts.total().ns(),
            "latency_ns": self.latency.ns(),
            "breakdown": breakdown,
            "bandwidth_gbs": self.gb_per_second(),
            "bottleneck_gbs": self.bottleneck.gb_per_second(),
            "utilisation": self.utilisation(),
        });
        measured.serialize(to)
    }
}

/// Report of `cubeyard probe`: measurements of cases, and the checked properties.
#[derive(Clone, Debug, Serialize)]
pub struct ProbeReport {
    /// Measurements of the cases.
    pub cases: Vec<CaseReport>,
    /// Properties that any sound machine has.
    pub invariants: Vec<Invariant>,
}

impl ProbeReport {
    /// Checks the properties that cases on a machine of this topology must have.
    pub fn new(topology: &Topology, cases: Vec<CaseReport>) -> Self {
        let invariants = invariants(topology, &cases);
        Self { cases, invariants }
    }

    /// Returns whether all properties hold.
    pub fn holds(&self) -> bool {
        self.invariants.iter().all(|invariant| invariant.holds)
    }
}

/// Measurements of one case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Case that was measured.
    #[serde(flatten)]
    pub case: Case,
    /// Measurement at the reference size.
    #[serde(flatten)]
    pub reference: Measured,
    /// Measurements at the sizes of the sweep.
    pub sweep: Vec<Measured>,
    /// Route of the data at the reference size.
    pub route: Vec<Hop>,
    /// Critical path at the reference size, if requested.
    #[serde(rename = "explain", skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<NamedStep>>,
}

/// Link on the route of the data, and the node at its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hop {
    /// Name of the node.
    pub node: String,
    /// Bandwidth of the link.
    #[serde(rename = "bandwidth_gbs", serialize_with = "gbs")]
    pub bandwidth: Bandwidth,
    /// Serialisation of one flit onto the link.
    #[serde(rename = "serialisation_ns", serialize_with = "ns")]
    pub serialisation: Span,
    /// Propagation delay of the link.
    #[serde(rename = "wire_ns", serialize_with = "ns")]
    pub wire: Span,
    /// Latency that the node adds.
    #[serde(rename = "overhead_ns", serialize_with = "ns")]
    pub overhead: Span,
    /// Time until the first flit has passed the node, counted from the start of the route.
    #[serde(rename = "cumulative_ns", serialize_with = "ns")]
    pub cumulative: Span,
    /// Whether this is a slowest link of the route.
    #[serde(rename = "bottleneck")]
    pub is_bottleneck: bool,
}

/// Measures a case on fresh machines.
pub fn measure(topology: &Topology, case: &Case) -> Result<CaseReport, RequestError> {
    let at = |bytes| -> Result<(Measured, Machine, RequestId), RequestError> {
        let mut machine = Machine::new(topology.clone());
        let id = machine.submit(case.request(&machine, bytes)?)?;
        machine.run();
        Ok((measured(&machine, id, bytes), machine, id))
    };
    let (reference, machine, id) = at(REFERENCE_BYTES)?;
    let route = route(&machine, id);
    let sweep: Result<Vec<_>, RequestError> =
        SWEEP_BYTES.iter().map(|&bytes| Ok(at(bytes)?.0)).collect();
    Ok(CaseReport { case: case.clone(), reference, sweep: sweep?, route, steps: None })
}

/// Returns the measurement of a completed request to memory.
///
/// # Panics
/// If the request is pending, or a custom component answered it.
pub fn measured<W: Watch>(machine: &Machine<W>, request: RequestId, bytes: u64) -> Measured {
    let completion = machine.completion(request).expect("it has been run");
    let unloaded = machine.view().unloaded_latency(request).expect("our own memory answered");
    let bottleneck = bottleneck(machine, request);
    Measured { bytes, latency: completion.latency(), unloaded, bottleneck }
}

/// Returns the bandwidth of the slowest link or memory on the route.
fn bottleneck<W: Watch>(machine: &Machine<W>, request: RequestId) -> Bandwidth {
    let access = machine.view().access(request).expect("a request to memory");
    let links = access.there.iter().map(|&link| machine.view().network().link(link).bandwidth);
    links.chain(machine.view().memory_bandwidth(request)).min().expect("a route has links")
}

/// Returns the route of the data: from the memory for a read, to it for a write.
pub fn route<W: Watch>(machine: &Machine<W>, request: RequestId) -> Vec<Hop> {
    let access = machine.view().access(request).expect("a request to memory");
    let links = match access.direction {
        crate::message::Direction::Read => access.back.as_ref().expect("a read is answered"),
        crate::message::Direction::Write => &access.there,
    };
    let network = machine.view().network();
    let flit = network.flit_bytes().min(access.bytes);
    let slowest = links.iter().map(|&link| network.link(link).bandwidth).min();
    let mut cumulative = Span::ZERO;
    let hop = |&link: &cubeyard_sim::LinkId| {
        let spec = network.link(link);
        let serialisation = network.flit_span(link, flit);
        let overhead = network.nodes()[spec.to.index()].overhead;
        cumulative += serialisation + spec.propagation + overhead;
        Hop {
            node: machine.topology().nodes()[spec.to.index()].name.clone(),
            bandwidth: spec.bandwidth,
            serialisation,
            wire: spec.propagation,
            overhead,
            cumulative,
            is_bottleneck: Some(spec.bandwidth) == slowest,
        }
    };
    links.iter().map(hop).collect()
}
