//! Minimum times that the links allow for collectives and for messages among PEs.

use std::collections::BTreeMap;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::NodeId;
use cubeyard_sim::{Bandwidth, Span};

use super::Lab;
use crate::report::Bound;
use cubeyard_collectives::collective::bound::{Spread, bound, capacities};
use cubeyard_collectives::collective::{Operation, World};
use cubeyard_collectives::distributed::RankMap;

/// Returns the bound of an operation among the ranks of a group. `bytes` is the larger of a rank's input and output,
/// spread over the PEs of a rank according to `spread`.
pub(super) fn links(
    lab: &Lab,
    map: &RankMap,
    operation: Operation,
    bytes: u64,
    spread: Spread,
) -> Vec<Bound> {
    let world = map.world();
    let engines = |rank| lab.context.machine(|machine| map.engines(machine.topology(), rank));
    let members: Vec<_> = (0..world.ranks).map(engines).collect();
    links_of(lab, (&members, world), operation, bytes, spread)
}

/// Returns the bound of an operation among ranks, identified by the DMA engines of their PEs.
pub(super) fn links_among(
    lab: &Lab,
    members: &[Vec<NodeId>],
    world: &World,
    operation: Operation,
    bytes: u64,
) -> Vec<Bound> {
    links_of(lab, (members, world), operation, bytes, Spread::Any)
}

fn links_of(
    lab: &Lab,
    (members, world): (&[Vec<NodeId>], &World),
    operation: Operation,
    bytes: u64,
    spread: Spread,
) -> Vec<Bound> {
    let found =
        lab.context.machine(|machine| bound(machine.topology(), members, world, operation, spread));
    let found = found.filter(|_| bytes > 0).and_then(|bound| {
        let seconds = bytes as f64 * operation.bus_factor(world.ranks) / bound.bus;
        let span = Span::from_ns(seconds * 1e9)?;
        Some(Bound {
            resource: format!("links for {} ({})", operation.name(), bound.kind.name()),
            span,
        })
    });
    found.into_iter().collect()
}

/// Returns the bound of messages among PEs, where `bytes` go from one to another: the longest time that the data
/// leaving a PE, a cube or a SIP takes on its outgoing routes. However other PEs forward it, and in whatever order, the
/// data leaves each of these once.
pub(super) fn links_between(
    lab: &Lab,
    pes: &[PeRef],
    bytes: impl Fn(usize, usize) -> u64,
) -> Vec<Bound> {
    let (all, sets) = (0..pes.len(), sets(pes));
    let leaving = sets.iter().map(|near| {
        let far: Vec<_> = all.clone().filter(|rank| !near.contains(rank)).collect();
        let pairs = near.iter().flat_map(|&from| far.iter().map(move |&to| (from, to)));
        pairs.map(|(from, to)| bytes(from, to)).sum::<u64>()
    });
    let rates = lab.context.machine(|machine| {
        let topology = machine.topology();
        let engine = |pe: &PeRef| vec![topology.pe_dma(*pe)];
        capacities(topology, &pes.iter().map(engine).collect::<Vec<_>>(), &sets)
    });
    let spans = leaving
        .zip(rates)
        .filter_map(|(bytes, rate)| Some(Bandwidth::from_bytes_per_second(rate)?.span(bytes)));
    let span = spans.max().filter(|span| *span > Span::ZERO);
    span.map(|span| Bound { resource: "links of messages".to_owned(), span }).into_iter().collect()
}

/// Returns each PE alone, the PEs of each cube, and the PEs of each SIP, but no set of all PEs.
fn sets(pes: &[PeRef]) -> Vec<Vec<usize>> {
    let mut sets: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (rank, pe) in pes.iter().enumerate() {
        let keys = [
            (pe.sip, None, None),
            (pe.sip, Some(pe.cube), None),
            (pe.sip, Some(pe.cube), Some(pe.pe)),
        ];
        keys.into_iter().for_each(|key| sets.entry(key).or_default().push(rank));
    }
    sets.into_values().filter(|set| set.len() < pes.len()).collect()
}
