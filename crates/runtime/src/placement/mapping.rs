//! Which PEs map which shards.

use std::collections::BTreeMap;

use cubeyard_device::request::PeRef;

use super::resolve::every;
use super::{Layout, Split};

/// PEs whose page tables get the same of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingGroup {
    /// The PEs, in order.
    pub pes: Vec<PeRef>,
    /// What they map: indices into [`Layout::shards`], by offset, no two of them overlapping.
    pub shards: Vec<usize>,
}

impl Layout {
    /// Which PEs map which shards, as ADR-0011 D3.3 has it.
    ///
    /// All PEs of all cubes that the tensor is placed on take part, those that hold nothing too.
    ///
    /// * A level that splits lets everybody see everything: each part is mapped, in the copy that the PE
    ///   [uses](Self::holder_for).
    /// * Where cubes replicate, a PE maps only what is in its own cube; where SIPs replicate, only what is
    ///   in its own SIP.
    /// * Where PEs replicate, a PE maps its own copy. Of the parts of other cubes, if cubes split, it maps
    ///   the first.
    ///
    /// PEs that map the same are one group; PEs that map nothing are in none. Groups are ordered by their
    /// first PE.
    ///
    /// ```
    /// # use cubeyard_device::topology::Topology;
    /// # use cubeyard_runtime::{dtype::DType, placement::{Placement, Split}};
    /// let machine = Topology::embedded();
    /// let sharded = Placement { cube: Split::RowWise, pe: Split::RowWise, ..Placement::default() };
    /// let layout = sharded.resolve("4096x4096".parse()?, DType::F16, &machine)?;
    /// let groups = layout.mapping_groups();
    /// assert_eq!((groups.len(), groups[0].pes.len(), groups[0].shards.len()), (1, 128, 128));
    ///
    /// let replicated = Placement { cube: Split::Replicate, ..sharded };
    /// let layout = replicated.resolve("4096x4096".parse()?, DType::F16, &machine)?;
    /// let groups = layout.mapping_groups();
    /// assert_eq!((groups.len(), groups[0].pes.len(), groups[0].shards.len()), (16, 8, 8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mapping_groups(&self) -> Vec<MappingGroup> {
        // By what they see first, which is cheap, and then by what they map, which also joins those that
        // see differently and find the same there.
        let pes: Vec<_> = every(&self.sips, &self.cubes, &self.pes).collect();
        let mut by_shards: BTreeMap<Vec<usize>, Vec<PeRef>> = BTreeMap::new();
        let mut shards = Vec::new();
        // Those that see the same follow each other, since a place is seen with all that is above it.
        for pes in pes.chunk_by(|&one, &next| self.sight(one) == self.sight(next)) {
            self.mapped_by(pes[0], &mut shards);
            match by_shards.get_mut(&shards) {
                Some(others) => others.extend(pes),
                None => drop(by_shards.insert(shards.clone(), pes.to_vec())),
            }
        }
        by_shards.remove(&Vec::new());
        let group = |(shards, mut pes): (_, Vec<_>)| {
            pes.sort_unstable();
            MappingGroup { pes, shards }
        };
        let mut groups: Vec<_> = by_shards.into_iter().map(group).collect();
        groups.sort_unstable_by_key(|group| group.pes[0]);
        groups
    }

    /// What of a PE's place matters for what it maps: two with the same map the same.
    fn sight(&self, pe: PeRef) -> [Option<u32>; 3] {
        let replicated = self.splits.map(|split| split == Split::Replicate);
        let [_, cube, own] = replicated;
        [
            replicated.contains(&true).then(|| pe.sip.number()),
            (cube || own).then(|| pe.cube.number()),
            own.then(|| pe.pe.number()),
        ]
    }

    /// The shards that a PE maps, into a list that is used again.
    fn mapped_by(&self, pe: PeRef, mapped: &mut Vec<usize>) {
        let [sip, cube, _] = self.splits.map(|split| split == Split::Replicate);
        let seen = |&index: &usize| {
            let at = self.shards[index].at;
            (!sip || at.sip == pe.sip) && (!cube || (at.sip, at.cube) == (pe.sip, pe.cube))
        };
        let firsts = (0..self.shards.len()).step_by(self.copies);
        mapped.clear();
        mapped.extend(firsts.map(|first| self.copy_for(pe, first)).filter(seen));
    }
}
