//! Cost model of an operation by an algorithm: α per step, β per byte.
//!
//! A stage of a [`Schedule`] takes the flight time of its messages, plus the time per byte of its busiest link:
//! the routes of all its messages are laid onto the links of the topology. Stages in sequence add up. If pieces
//! are pipelined, the first passes through all stages, and the others take the time of the link that is busiest
//! over all stages together.

use cubeyard_device::topology::{LinkId, Topology};
use cubeyard_sim::Span;

use crate::collective::{Flow, Schedule, Stage};
use crate::distributed::rank_map::RankMap;

/// Maximum number of flows sampled per stage.
const MOST_FLOWS: usize = 512;

/// Time of the first load and the last store, in nanoseconds. This and the next two constants are fitted to short
/// messages on the default machine.
const START_NS: f64 = 20.0;

/// Time of the PEs at both ends of a message besides its flight, in nanoseconds: dispatch, writing and reading the
/// slot, and combining.
const ENDS_NS: f64 = 4.0;

/// Time of a PE for each further message that it loads or stores in a stage, in nanoseconds.
const MESSAGE_NS: f64 = 25.0;

/// Cost of an operation by an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Fixed time, in nanoseconds.
    pub alpha: f64,
    /// Time per byte of the operation's size, in picoseconds.
    pub beta: f64,
    /// Time per byte of the first piece, in picoseconds.
    pub fill: f64,
    /// Maximum length of the first piece, in bytes per rank.
    pub piece: f64,
}

impl Cost {
    /// Computes the cost of a schedule with messages of at most `slot_bytes` bytes.
    pub fn of(topology: &Topology, map: &RankMap, schedule: &Schedule, slot_bytes: u64) -> Self {
        let fabric = Fabric { topology, map };
        let piece = slot_bytes as f64 * map.positions() as f64;
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

    /// Returns the duration for a size in bytes.
    pub fn span(&self, bytes: u64) -> Option<Span> {
        let first = self.piece.min(bytes as f64);
        Span::from_ns(self.alpha + (self.beta * bytes as f64 + self.fill * first) / 1e3)
    }
}

/// The links between ranks.
struct Fabric<'a> {
    topology: &'a Topology,
    map: &'a RankMap,
}

impl Fabric<'_> {
    /// Returns the fixed time of a stage in nanoseconds, and its time per byte in picoseconds.
    fn stage(&self, stage: &Stage) -> (f64, f64) {
        let flights: Vec<f64> = sampled(&stage.flows).map(|flow| self.flight(flow)).collect();
        // A message of a repeated stage crosses all wires in turn, so the mean flight time counts.
        let flight = match stage.times {
            1 => flights.iter().copied().fold(0.0, f64::max),
            _ => flights.iter().sum::<f64>() / flights.len().max(1) as f64,
        };
        let more = stage.messages.saturating_sub(1);
        let step = flight + ENDS_NS + more as f64 * MESSAGE_NS;
        let flows: Vec<_> = stage.flows.iter().collect();
        (stage.times as f64 * step, stage.times as f64 * self.busiest(&flows))
    }

    /// Returns the longest flight time between the PEs of two ranks, in nanoseconds.
    fn flight(&self, flow: &Flow) -> f64 {
        let spans = self.routes(flow).map(|route| self.topology.flight(&route));
        spans.max().unwrap_or(Span::ZERO).ns()
    }

    fn routes(&self, flow: &Flow) -> impl Iterator<Item = Vec<LinkId>> {
        let [from, to] =
            [flow.from, flow.to].map(|rank| self.map.engines(self.topology, rank).into_iter());
        from.zip(to).filter_map(|(from, to)| self.topology.route(from, to).ok())
    }

    /// Returns the time of the busiest link per byte of the operation's size, in picoseconds.
    fn busiest(&self, flows: &[&Flow]) -> f64 {
        let mut load = vec![0.0_f64; self.topology.links().len()];
        let each = 1.0 / self.map.positions() as f64;
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

/// Returns the sampling interval of flows. It is odd, because flows often come in rows of even length.
fn every(count: usize) -> usize {
    count.div_ceil(MOST_FLOWS).max(1) | 1
}

fn sampled<T>(flows: &[T]) -> impl Iterator<Item = &T> {
    flows.iter().step_by(every(flows.len()))
}
