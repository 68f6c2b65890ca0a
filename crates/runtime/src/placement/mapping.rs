//! Shards that each PE maps in its MMU.

use std::ops::Range;

use cubeyard_device::request::PeRef;

use super::resolve::every;
use super::{Layout, Split};

/// PEs that map the same shards of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MappingGroup {
    /// The PEs, in order.
    pub pes: Vec<PeRef>,
    /// Indices into [`Layout::shards`], by offset, without overlaps.
    pub shards: Vec<usize>,
}

impl Layout {
    /// Returns the shards that each PE maps, by the rules of ADR-0011 D3.3.
    ///
    /// All PEs of the cubes that the tensor is placed on take part, including those that hold nothing.
    ///
    /// * At a level that splits, a PE maps every part, in the copy that it [uses](Self::holder_for).
    /// * If cubes replicate, a PE maps shards of its own cube only; if SIPs replicate, of its own SIP only.
    /// * If PEs replicate, a PE maps its own copy, and the first copy of parts in other cubes.
    ///
    /// PEs that map the same shards form a group; PEs that map nothing are in none. Groups are ordered by their first
    /// PE.
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
        // Grouping by `sight` is cheap; comparing the mapped shards also joins groups that differ only in `sight`.
        let pes: Vec<_> = every(&self.sips, &self.cubes, &self.pes).collect();
        let mut runs: Vec<(Range<usize>, Vec<usize>)> = Vec::new();
        let (mut shards, mut to) = (Vec::new(), 0);
        // PEs of the same sight are adjacent, since sight includes all levels above.
        for run in pes.chunk_by(|&one, &next| self.sight(one) == self.sight(next)) {
            let from = to;
            to += run.len();
            self.mapped_by(run[0], &mut shards);
            match runs.last_mut() {
                Some((before, same)) if *same == shards => before.end = to,
                _ => runs.push((from..to, shards.clone())),
            }
        }
        runs.retain(|(_, shards)| !shards.is_empty());
        runs.sort_by(|(_, one), (_, other)| one.cmp(other));
        let mut groups: Vec<MappingGroup> = Vec::new();
        for (run, shards) in runs {
            match groups.last_mut() {
                Some(group) if group.shards == shards => group.pes.extend(&pes[run]),
                _ => groups.push(MappingGroup { pes: pes[run].to_vec(), shards }),
            }
        }
        groups.iter_mut().for_each(|group| group.pes.sort_unstable());
        groups.sort_unstable_by_key(|group| group.pes[0]);
        groups
    }

    /// Returns the coordinates of a PE that determine its mappings: PEs of the same sight map the same shards.
    fn sight(&self, pe: PeRef) -> [Option<u32>; 3] {
        let replicated = self.splits.map(|split| split == Split::Replicate);
        // If a cube has one holder, all PEs of the cube use it.
        let [_, cube, own] = replicated;
        [
            replicated.contains(&true).then(|| pe.sip.number()),
            (cube || own).then(|| pe.cube.number()),
            (own && self.placed_pes > 1).then(|| pe.pe.number()),
        ]
    }

    /// Writes the shards that a PE maps into a reused list.
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
