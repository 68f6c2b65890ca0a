//! What an operation costs on a machine by an algorithm: α for each step, β for each byte.
//!
//! A stage of a [`Schedule`] takes the flight of its messages, and for each byte what its busiest link needs:
//! all routes of all its messages are laid onto the links of the topology. Stages in turn add up. Where pieces
//! follow each other, the first goes through all stages, and the others behind it take what the busiest link
//! needs for all stages together.

use cubeyard_device::topology::{LinkId, Topology};
use cubeyard_sim::Span;

use crate::collective::{Flow, Schedule, Stage};
use crate::distributed::places::Places;

/// More flows than this of a stage say nothing new.
const MOST_FLOWS: usize = 512;

/// What the first PEs do before anything leaves and the last after all has come: they load and store. This and
/// the next two are fitted to short messages on the default machine.
const START_NS: f64 = 20.0;

/// What the PEs at both ends do for a message beside its flight: they dispatch, write the slot, read it, and
/// join it with what they hold.
const ENDS_NS: f64 = 4.0;

/// What a PE needs for each message more that it loads or stores in a stage.
const MESSAGE_NS: f64 = 25.0;

/// What an operation costs by an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Nanoseconds without any content.
    pub alpha: f64,
    /// Picoseconds for each byte of the operation's size.
    pub beta: f64,
    /// Picoseconds for each byte of the first piece.
    pub fill: f64,
    /// How long the first piece is at most, in bytes of a rank.
    pub piece: f64,
}

impl Cost {
    /// What a schedule costs, with messages of at most so many bytes.
    pub fn of(topology: &Topology, places: &Places, schedule: &Schedule, slot_bytes: u64) -> Self {
        let fabric = Fabric { topology, places };
        let piece = slot_bytes as f64 * places.positions() as f64;
        let mut cost = Self { alpha: START_NS, piece, ..Self::default() };
        for stage in &schedule.stages {
            let (alpha, beta) = fabric.stage(stage);
            cost.alpha += alpha;
            cost.beta += beta;
        }
        if schedule.pipelined {
            let flows: Vec<_> = schedule.stages.iter().flat_map(|stage| &stage.flows).collect();
            let together = fabric.busiest(&flows);
            (cost.beta, cost.fill) = (together, cost.beta - together);
        }
        cost
    }

    /// How long it takes for so many bytes.
    pub fn span(&self, bytes: u64) -> Option<Span> {
        let first = self.piece.min(bytes as f64);
        Span::from_ns(self.alpha + (self.beta * bytes as f64 + self.fill * first) / 1e3)
    }
}

/// The links between ranks.
struct Fabric<'a> {
    topology: &'a Topology,
    places: &'a Places,
}

impl Fabric<'_> {
    /// Nanoseconds, and picoseconds a byte.
    fn stage(&self, stage: &Stage) -> (f64, f64) {
        let flights: Vec<f64> = sampled(&stage.flows).map(|flow| self.flight(flow)).collect();
        // What is passed on again and again comes over all wires in turn.
        let flight = match stage.times {
            1 => flights.iter().copied().fold(0.0, f64::max),
            _ => flights.iter().sum::<f64>() / flights.len().max(1) as f64,
        };
        let more = stage.messages.saturating_sub(1);
        let step = flight + ENDS_NS + more as f64 * MESSAGE_NS;
        let flows: Vec<_> = stage.flows.iter().collect();
        (stage.times as f64 * step, stage.times as f64 * self.busiest(&flows))
    }

    /// The longest flight between the PEs of two ranks, in nanoseconds.
    fn flight(&self, flow: &Flow) -> f64 {
        let spans = self.routes(flow).map(|route| self.topology.flight(&route));
        spans.max().unwrap_or(Span::ZERO).ns()
    }

    fn routes(&self, flow: &Flow) -> impl Iterator<Item = Vec<LinkId>> {
        let [from, to] =
            [flow.from, flow.to].map(|rank| self.places.engines(self.topology, rank).into_iter());
        from.zip(to).filter_map(|(from, to)| self.topology.route(from, to).ok())
    }

    /// What the busiest link needs for a byte of the operation's size, in picoseconds.
    fn busiest(&self, flows: &[&Flow]) -> f64 {
        let mut load = vec![0.0_f64; self.topology.links().len()];
        let each = 1.0 / self.places.positions() as f64;
        let scale = every(flows.len()) as f64;
        for flow in sampled(flows) {
            for route in self.routes(flow) {
                route.iter().for_each(|link| load[link.index()] += flow.share * each * scale);
            }
        }
        let times = load.iter().zip(self.topology.links());
        let times =
            times.map(|(load, link)| load * 1e12 / link.bandwidth.bytes_per_second() as f64);
        times.fold(0.0, f64::max)
    }
}

/// Every so many of a list are looked at. An odd number, for flows come in rows that are even more often.
fn every(count: usize) -> usize {
    count.div_ceil(MOST_FLOWS).max(1) | 1
}

fn sampled<T>(flows: &[T]) -> impl Iterator<Item = &T> {
    flows.iter().step_by(every(flows.len()))
}
