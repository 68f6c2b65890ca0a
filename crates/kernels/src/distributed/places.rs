//! Which PEs the ranks of a group are, and how ranks lie to each other.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{NodeId, SipTopology, Topology};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::{Channel, End};

use super::error::DistError;
use super::group::{GroupConfig, Ranks};
use crate::collective::{Wire, World};
use crate::tl::Port;

/// Which PEs ranks are.
#[derive(Clone, Debug)]
pub struct Places {
    ranks: Ranks,
    pub(super) sips: Vec<SipId>,
    pub(super) cubes: Vec<CubeId>,
    pub(super) pes: Vec<PeId>,
    world: World,
}

impl Places {
    /// The ranks that a group has on a machine, if it has as many.
    pub fn new(topology: &Topology, config: &GroupConfig) -> Result<Self, DistError> {
        let (cubes, pes): (Vec<_>, Vec<_>) = (topology.cubes().collect(), topology.pes().collect());
        let mut sips = config.sips.clone();
        if sips.is_empty() {
            sips = topology.sips().collect();
        }
        let each = match config.ranks {
            Ranks::Sip => 1,
            Ranks::Cube => cubes.len(),
            Ranks::Pe => cubes.len() * pes.len(),
        };
        let available = sips.len() * each;
        let wanted = config.world_size.unwrap_or(available);
        if wanted == 0 || wanted > available || !wanted.is_multiple_of(each) {
            return Err(DistError::World { wanted, available, kind: config.ranks.kind(), each });
        }
        sips.truncate(wanted / each);
        let world = world(topology, config.ranks, sips.len());
        debug_assert_eq!(world.ranks, wanted, "each SIP has as many");
        Ok(Self { ranks: config.ranks, sips, cubes, pes, world })
    }

    /// How ranks lie to each other.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// How many PEs a rank has.
    pub fn positions(&self) -> usize {
        match self.ranks {
            Ranks::Sip => self.cubes.len() * self.pes.len(),
            Ranks::Cube => self.pes.len(),
            Ranks::Pe => 1,
        }
    }

    /// The PEs of a rank, by position.
    pub fn members(&self, rank: usize) -> Vec<PeRef> {
        let (cubes, pes) = (self.cubes.len(), self.pes.len());
        let of_cube = |sip: usize, cube: usize| {
            let (sip, cube) = (self.sips[sip], self.cubes[cube]);
            self.pes.iter().map(move |&pe| PeRef { sip, cube, pe })
        };
        match self.ranks {
            Ranks::Sip => (0..cubes).flat_map(|cube| of_cube(rank, cube)).collect(),
            Ranks::Cube => of_cube(rank / cubes, rank % cubes).collect(),
            Ranks::Pe => {
                let (cube, pe) = (rank / pes, rank % pes);
                of_cube(cube / cubes, cube % cubes).skip(pe).take(1).collect()
            }
        }
    }

    /// The DMA engines of a rank's PEs, by position.
    pub fn engines(&self, topology: &Topology, rank: usize) -> Vec<NodeId> {
        let members = self.members(rank).into_iter();
        members.map(|PeRef { sip, cube, pe }| topology.pe_dma(sip, cube, pe)).collect()
    }

    /// The first rank of a SIP's launch, and how many more each cube and each PE is.
    pub(super) fn numbers(&self, sip: usize) -> [usize; 3] {
        let (cubes, pes) = (self.cubes.len(), self.pes.len());
        match self.ranks {
            Ranks::Sip => [sip, 0, 0],
            Ranks::Cube => [sip * cubes, 1, 0],
            Ranks::Pe => [sip * cubes * pes, pes, 1],
        }
    }

    /// The channels of wires between ranks, at each position.
    pub(super) fn channels(&self, wires: &[Wire], group: u16) -> Vec<Channel> {
        let mut channels = Vec::new();
        for wire in wires {
            let [(a, at_a), (b, at_b)] = wire.ends;
            for (pe_a, pe_b) in self.members(a).into_iter().zip(self.members(b)) {
                let end = |pe, port: Port| End { pe, port: port.of_group(group) };
                channels.push(Channel { ends: [end(pe_a, at_a), end(pe_b, at_b)] });
            }
        }
        channels
    }
}

/// How ranks lie to each other: PEs in cubes, cubes in the mesh of a SIP, SIPs as the topology says. Some of
/// the SIPs only are a ring of their own.
fn world(topology: &Topology, ranks: Ranks, sips: usize) -> World {
    let spec = topology.spec();
    let mut dimensions = Vec::new();
    if ranks == Ranks::Pe {
        dimensions.push((spec.pe_count() as usize, false));
    }
    if ranks != Ranks::Sip {
        dimensions.extend([(spec.cubes.w as usize, false), (spec.cubes.h as usize, false)]);
    }
    let (w, h) = (spec.sips.w as usize, spec.sips.h as usize);
    if w * h == sips && spec.sips.topology != SipTopology::Ring1d {
        let wraps = spec.sips.topology == SipTopology::Torus2d;
        dimensions.extend([(w, wraps), (h, wraps)]);
    } else {
        dimensions.push((sips, true));
    }
    let (grid, wraps): (Vec<_>, Vec<_>) = dimensions.into_iter().unzip();
    World { ranks: grid.iter().product(), grid, wraps }
}
