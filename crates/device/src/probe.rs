//! The latency and bandwidth of a machine's fabric, measured (ADR-0049).
//!
//! A *case* is one transfer on a fresh machine: the host to and from cubes near and far, and a PE's DMA to
//! memories near and far. Each is measured, held against the closed form, and swept over sizes. Some
//! things must then hold of any sound machine, which [`invariants`] checks.

mod cases;
mod invariants;
mod pattern;
mod stopped;

pub use cases::{Case, Category, cases};
pub use invariants::{Invariant, invariants};
pub use pattern::{HeldUp, LinkUse, Pattern, PatternReport, Planned, TransferReport};
pub use stopped::RunError;

use cubeyard_sim::{Bandwidth, Span};

use crate::formula::Parts;
use crate::log::Watch;
use crate::machine::Machine;
use crate::message::RequestId;
use crate::request::RequestError;
use crate::topology::Topology;

/// The size at which cases are compared.
pub const REFERENCE_BYTES: u64 = 32 << 10;

/// The sizes of the sweep.
pub const SWEEP_BYTES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// A transfer that has been measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// How many bytes.
    pub bytes: u64,
    /// How long it took.
    pub latency: Span,
    /// What the closed form says of it alone, by parts.
    pub alone: Parts,
    /// The slowest link or memory on its way.
    pub bottleneck: Bandwidth,
}

impl Measured {
    /// How much longer it took than alone.
    pub fn wait(&self) -> Span {
        self.latency.saturating_sub(self.alone.total())
    }

    /// Bytes over the whole time, in 10⁹ bytes a second.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / self.latency.ns()
    }

    /// The share of the bottleneck that was used.
    pub fn utilisation(&self) -> f64 {
        self.gb_per_second() / self.bottleneck.gb_per_second()
    }
}

/// A case that has been measured.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case.
    pub case: Case,
    /// At the reference size.
    pub reference: Measured,
    /// At the sizes of the sweep.
    pub sweep: Vec<Measured>,
    /// The way of its data, at the reference size.
    pub route: Vec<Hop>,
}

/// A link on the way of the data, and the node that it leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The node.
    pub node: String,
    /// How fast the link is.
    pub bandwidth: Bandwidth,
    /// How long a flit takes onto it.
    pub serialisation: Span,
    /// How long it is on the wire.
    pub wire: Span,
    /// What the node charges.
    pub overhead: Span,
    /// When the first flit has passed the node, counted from where the data starts.
    pub cumulative: Span,
    /// Whether nothing on the way is slower than the link.
    pub is_bottleneck: bool,
}

/// Measures a case.
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
    Ok(CaseReport { case: case.clone(), reference, sweep: sweep?, route })
}

/// What there is to say of a request to memory that is done.
///
/// # Panics
/// If it is not, or if a component of a user's own answered it.
pub fn measured<W: Watch>(machine: &Machine<W>, request: RequestId, bytes: u64) -> Measured {
    let completion = machine.completion(request).expect("it has been run");
    let alone = machine.alone(request).expect("our own memory answered");
    let bottleneck = bottleneck(machine, request);
    Measured { bytes, latency: completion.latency(), alone, bottleneck }
}

/// The slowest link or memory on the way.
fn bottleneck<W: Watch>(machine: &Machine<W>, request: RequestId) -> Bandwidth {
    let access = machine.access(request).expect("a request to memory");
    let links = access.there.iter().map(|&link| machine.network().link(link).bandwidth);
    links.chain(machine.memory_bandwidth(request)).min().expect("a route has links")
}

/// The way of the data: of a read from the memory, of a write to it.
pub fn route<W: Watch>(machine: &Machine<W>, request: RequestId) -> Vec<Hop> {
    let access = machine.access(request).expect("a request to memory");
    let links = match access.direction {
        crate::message::Direction::Read => access.back.as_ref().expect("a read is answered"),
        crate::message::Direction::Write => &access.there,
    };
    let network = machine.network();
    let flit = network.flit_bytes().min(access.bytes);
    let slowest = links.iter().map(|&link| network.link(link).bandwidth).min();
    let mut cumulative = Span::ZERO;
    let hop = |&link: &cubeyard_sim::LinkId| {
        let spec = network.link(link);
        let serialisation = spec.bandwidth.span(flit);
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
