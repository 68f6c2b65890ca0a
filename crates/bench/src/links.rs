//! Minimum times that the links allow for collectives and for messages among PEs.

use std::collections::BTreeMap;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::NodeId;
use cubeyard_sim::{Bandwidth, Span};

use super::Lab;
use crate::report::Bound;
use cubeyard_collectives::collective::bound::{Spread, bound, capacity};
use cubeyard_collectives::collective::{Operation, World};
use cubeyard_collectives::distributed::RankMap;

/// Returns the bound of an operation among the ranks of a group; `bytes` is the larger of a rank's input and
/// output.
pub(super) fn links(lab: &Lab, map: &RankMap, operation: Operation, bytes: u64) -> Vec<Bound> {
    let world = map.world();
    let engines = |rank| lab.context.machine(|machine| map.engines(machine.topology(), rank));
    let members: Vec<_> = (0..world.ranks).map(engines).collect();
    links_among(lab, &members, world, operation, bytes)
}

/// Returns the bound of an operation among ranks, given by the DMA engines of their PEs.
pub(super) fn links_among(
    lab: &Lab,
    members: &[Vec<NodeId>],
    world: &World,
    operation: Operation,
    bytes: u64,
) -> Vec<Bound> {
    let found = lab
        .context
        .machine(|machine| bound(machine.topology(), members, world, operation, Spread::Any));
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

/// Returns the bound of messages among PEs, where `bytes` go from one to another: the longest time that the
/// data leaving a PE, or a SIP, takes.
pub(super) fn links_between(
    lab: &Lab,
    pes: &[PeRef],
    bytes: impl Fn(usize, usize) -> u64,
) -> Vec<Bound> {
    let mut sets: Vec<Vec<usize>> = (0..pes.len()).map(|rank| vec![rank]).collect();
    let mut by_sip: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    pes.iter().enumerate().for_each(|(rank, pe)| by_sip.entry(pe.sip).or_default().push(rank));
    sets.extend(by_sip.into_values());
    let longest = sets.iter().filter_map(|near| {
        let far: Vec<_> = (0..pes.len()).filter(|rank| !near.contains(rank)).collect();
        let leaving = near.iter().flat_map(|&from| far.iter().map(move |&to| (from, to)));
        let leaving: u64 = leaving.map(|(from, to)| bytes(from, to)).sum();
        least(lab, [near, &far].map(|side| side.iter().map(|&rank| pes[rank]).collect()), leaving)
    });
    let span = longest.max().filter(|span| *span > Span::ZERO);
    span.map(|span| Bound { resource: "links of messages".to_owned(), span }).into_iter().collect()
}

/// Returns the minimum time of so many bytes from some PEs to others; `None` if either side is empty.
fn least(lab: &Lab, sides: [Vec<PeRef>; 2], bytes: u64) -> Option<Span> {
    if sides.iter().any(Vec::is_empty) {
        return None;
    }
    let rate = lab.context.machine(|machine| {
        let topology = machine.topology();
        let engine = |pe: &PeRef| topology.pe_dma(pe.sip, pe.cube, pe.pe);
        let [from, to] = sides.map(|side| side.iter().map(engine).collect::<Vec<_>>());
        capacity(topology, &from, &to)
    });
    Some(Bandwidth::from_bytes_per_second(rate)?.span(bytes))
}
