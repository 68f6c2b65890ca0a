//! What a step of an algorithm costs on a machine: α for each message, β for each byte.

use cubeyard_device::topology::Topology;
use cubeyard_sim::Span;

use crate::collective::Algorithm;
use crate::distributed::places::Places;

/// More wires than this say nothing new.
const MOST_WIRES: usize = 512;

/// What the PEs at both ends do for a message beside its flight: they dispatch, write the slot, read it, and
/// join it with what they hold. Fitted to short all-reduces on the default machine.
const ENDS: Span = Span::from_ps(10_000);

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// A message without content.
    pub alpha: Span,
    /// Picoseconds for each byte that a rank sends.
    pub beta: f64,
}

impl Cost {
    /// What a step over the wires of an algorithm costs: the flight of the farthest, and what the busiest link
    /// needs for a byte of each rank, spread evenly over its PEs and wires.
    pub fn of(topology: &Topology, places: &Places, algorithm: &dyn Algorithm) -> Self {
        let wires = algorithm.wires(places.world());
        let every = wires.len().div_ceil(MOST_WIRES).max(1);
        let mut load = vec![0_u64; topology.links().len()];
        let (mut alpha, mut messages) = (Span::ZERO, 0);
        for wire in wires.iter().step_by(every) {
            let [from, to] = wire.ends.map(|(rank, _)| places.engines(topology, rank));
            for (&from, &to) in from.iter().zip(&to) {
                for (from, to) in [(from, to), (to, from)] {
                    let Ok(route) = topology.route(from, to) else { continue };
                    alpha = alpha.max(topology.flight(&route));
                    route.iter().for_each(|link| load[link.index()] += 1);
                    messages += 1;
                }
            }
        }
        let times = load.iter().zip(topology.links());
        let times = times
            .map(|(&load, link)| load as f64 * 1e12 / link.bandwidth.bytes_per_second() as f64);
        let busiest = times.fold(0.0, f64::max);
        // So many messages are a byte of each rank, each a PE's part of it.
        let share = places.world().ranks as f64 / f64::from(messages.max(1));
        Self { alpha: alpha + ENDS, beta: busiest * share }
    }
}
