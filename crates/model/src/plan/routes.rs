//! Form of the routes among SIPs: equal forms take equally long.

use cubeyard_collectives::collective::World;
use cubeyard_collectives::distributed::{GroupConfig, RankMap, Ranks};
use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;

/// Routes with their links numbered in the order of first use.
///
/// SIPs and the links between them are all alike, so the traffic of two groups with the same routes takes the same time,
/// including waits on links that several routes use.
pub(super) type RouteForm = Vec<Vec<usize>>;

/// Returns the form of the routes of these pairs of SIPs; `None` if there is no route.
pub(super) fn form(topology: &Topology, pairs: &[(SipId, SipId)]) -> Option<RouteForm> {
    let mut links = Vec::new();
    let (cube, pe) = (topology.cubes().next()?, topology.pes().next()?);
    let pe = |sip| PeRef { sip, cube, pe };
    let mut number = |link| {
        let known = links.iter().position(|it| *it == link);
        known.unwrap_or_else(|| {
            links.push(link);
            links.len() - 1
        })
    };
    let route = |&(from, to): &(SipId, SipId)| {
        let route = topology.route(topology.pe_dma(pe(from)), topology.hbm(pe(to))).ok()?;
        Some(route.into_iter().map(&mut number).collect())
    };
    pairs.iter().map(route).collect()
}

/// Form of a group: the routes between its SIPs, and the arrangement of its cubes in all-reduces.
pub(super) type GroupForm = (RouteForm, World);

/// Returns the form of a group of SIPs; `None` if there is no route.
pub(super) fn group_form(topology: &Topology, sips: &[SipId]) -> Option<GroupForm> {
    let (ranks, sips_of) = (Ranks::Cube, sips.to_vec());
    let config = GroupConfig { ranks, sips: sips_of, ..GroupConfig::default() };
    let map = RankMap::new(topology, &config).ok()?;
    Some((form(topology, &pairs(sips))?, map.world().clone()))
}

/// Returns all ordered pairs of different SIPs.
fn pairs(sips: &[SipId]) -> Vec<(SipId, SipId)> {
    let to = |&from: &SipId| sips.iter().map(move |&to| (from, to));
    sips.iter().flat_map(to).filter(|(from, to)| from != to).collect()
}
