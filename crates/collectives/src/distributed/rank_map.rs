//! Mapping of the ranks of a group to PEs, and their arrangement.

use std::fmt;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::{NodeId, SipTopology, Topology};
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::{Channel, ChannelEnd};

use super::config::{GroupConfig, Ranks};
use super::error::{DistError, listed};
use crate::collective::{Wire, World};
use cubeyard_tl::Port;

/// Mapping of the ranks of a group to PEs.
#[derive(Clone, Debug)]
pub struct RankMap {
    ranks: Ranks,
    pub(super) sips: Vec<SipId>,
    pub(super) cubes: Vec<CubeId>,
    pub(super) pes: Vec<PeId>,
    world: World,
}

impl RankMap {
    /// Returns the SIPs of the group.
    pub fn sips(&self) -> &[SipId] {
        &self.sips
    }

    /// Returns the number of PEs of the group in each SIP.
    pub fn pes_per_sip(&self) -> usize {
        self.cubes.len() * self.pes.len()
    }

    /// Resolves the ranks of a group on a machine; fails if the machine has too few.
    pub fn new(topology: &Topology, config: &GroupConfig) -> Result<Self, DistError> {
        let pes: Vec<_> = topology.pes().collect();
        let cubes = those("cube", &config.cubes, topology.cubes())?;
        if !cubes.is_sorted() {
            return Err(DistError::Unsorted(listed(&cubes)));
        }
        let mut sips = those("SIP", &config.sips, topology.sips())?;
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
        let world = world(topology, config.ranks, &sips, &cubes);
        debug_assert_eq!(world.ranks, wanted, "each SIP has as many");
        Ok(Self { ranks: config.ranks, sips, cubes, pes, world })
    }

    /// Returns the kind of unit that is a rank.
    pub fn ranks(&self) -> Ranks {
        self.ranks
    }

    /// Returns the index of a rank's SIP among the SIPs of the group.
    pub(super) fn sip_of(&self, rank: usize) -> usize {
        rank * self.sips.len() / self.world.ranks
    }

    /// Returns the arrangement of ranks.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the number of PEs per rank.
    pub fn positions(&self) -> usize {
        match self.ranks {
            Ranks::Sip => self.cubes.len() * self.pes.len(),
            Ranks::Cube => self.pes.len(),
            Ranks::Pe => 1,
        }
    }

    /// Returns the PEs of a rank, by position.
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

    /// Returns the DMA engines of a rank's PEs, by position.
    pub fn engines(&self, topology: &Topology, rank: usize) -> Vec<NodeId> {
        self.members(rank).into_iter().map(|pe| topology.pe_dma(pe)).collect()
    }

    /// Returns the first rank of a SIP's launch, and the rank increments per cube and per PE.
    pub(super) fn numbers(&self, sip: usize) -> [usize; 3] {
        let (cubes, pes) = (self.cubes.len(), self.pes.len());
        match self.ranks {
            Ranks::Sip => [sip, 0, 0],
            Ranks::Cube => [sip * cubes, 1, 0],
            Ranks::Pe => [sip * cubes * pes, pes, 1],
        }
    }

    /// Returns the channels of wires between ranks, at each position.
    pub(super) fn channels(&self, wires: &[Wire], group: u16) -> Vec<Channel> {
        let mut channels = Vec::new();
        for wire in wires {
            let [(a, at_a), (b, at_b)] = wire.ends;
            for (pe_a, pe_b) in self.members(a).into_iter().zip(self.members(b)) {
                let end = |pe, port: Port| ChannelEnd { pe, port: port.of_group(group) };
                channels.push(Channel { ends: [end(pe_a, at_a), end(pe_b, at_b)] });
            }
        }
        channels
    }
}

/// Returns the named parts, checked to exist and to be distinct; all parts if none are named.
fn those<T: Copy + Ord + fmt::Display>(
    kind: &'static str,
    named: &[T],
    all: impl Iterator<Item = T>,
) -> Result<Vec<T>, DistError> {
    let all: Vec<T> = all.collect();
    if named.is_empty() {
        return Ok(all);
    }
    if let Some(unknown) = named.iter().find(|one| !all.contains(one)) {
        return Err(DistError::Unknown { kind, name: unknown.to_string(), count: all.len() });
    }
    let mut sorted = named.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(DistError::Repeated { kind, name: pair[0].to_string() }),
        None => Ok(named.to_vec()),
    }
}

/// Returns the arrangement of ranks: PEs in cubes, cubes in the mesh of a SIP, SIPs by the topology. Cubes or
/// SIPs that do not form a rectangle, row by row, are arranged in a ring.
fn world(topology: &Topology, ranks: Ranks, sips: &[SipId], cubes: &[CubeId]) -> World {
    let spec = topology.spec();
    let mut dimensions = Vec::new();
    if ranks == Ranks::Pe {
        dimensions.push((spec.pe_count() as usize, false));
    }
    if ranks != Ranks::Sip {
        let numbers: Vec<_> = cubes.iter().map(|cube| cube.index()).collect();
        let mesh = [spec.cubes.w as usize, spec.cubes.h as usize];
        match rectangle(&numbers, mesh) {
            Some(sides) => dimensions.extend(sides.map(|side| (side, false))),
            None => dimensions.push((cubes.len(), true)),
        }
    }
    let numbers: Vec<_> = sips.iter().map(|sip| sip.index()).collect();
    let grid = [spec.sips.w as usize, spec.sips.h as usize];
    let is_grid = spec.sips.topology != SipTopology::Ring1d;
    match rectangle(&numbers, grid).filter(|_| is_grid) {
        Some(sides) => {
            let wraps = |side: usize| {
                spec.sips.topology == SipTopology::Torus2d && sides[side] == grid[side]
            };
            dimensions.extend([(sides[0], wraps(0)), (sides[1], wraps(1))]);
        }
        None => dimensions.push((sips.len(), true)),
    }
    let (grid, wraps): (Vec<_>, Vec<_>) = dimensions.into_iter().unzip();
    World { ranks: grid.iter().product(), grid, wraps }
}

/// Returns the sides of the rectangle that the places of a grid form, row by row; `None` if they do not.
fn rectangle(places: &[usize], [width, height]: [usize; 2]) -> Option<[usize; 2]> {
    let first = *places.first()?;
    let last = *places.last()?;
    let across = (last % width.max(1) + 1).checked_sub(first % width.max(1))?;
    let down = (last / width.max(1) + 1).checked_sub(first / width.max(1))?;
    let expected = (0..down).flat_map(|row| (0..across).map(move |at| first + row * width + at));
    let fits = across > 0 && down > 0 && last < width * height;
    (fits && expected.eq(places.iter().copied())).then_some([across, down])
}

#[cfg(test)]
mod tests {
    use super::rectangle;

    #[test]
    fn places_of_a_grid_are_a_rectangle_or_they_are_not() {
        let grid = [4, 3];
        assert_eq!(rectangle(&(0..12).collect::<Vec<_>>(), grid), Some([4, 3]));
        assert_eq!(rectangle(&[5, 6, 9, 10], grid), Some([2, 2]));
        assert_eq!(rectangle(&[7], grid), Some([1, 1]));
        assert_eq!(rectangle(&[1, 5, 9], grid), Some([1, 3]));
        assert_eq!(rectangle(&[3, 4], grid), None);
        assert_eq!(rectangle(&[5, 6, 10], grid), None);
        assert_eq!(rectangle(&[6, 5], grid), None);
        assert_eq!(rectangle(&[5, 9, 6, 10], grid), None);
        assert_eq!(rectangle(&[11, 12], grid), None);
        assert_eq!(rectangle(&[], grid), None);
    }
}
