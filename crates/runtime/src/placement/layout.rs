//! A placement as it is on a machine.

use std::ops::Range;

use cubeyard_device::request::PeRef;
use cubeyard_memory::address::{CubeId, PeId, SipId};

use super::Split;
use crate::dtype::DType;
use crate::shape::Shape;

/// What one PE holds of a tensor: a rectangle of its matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Who holds it.
    pub at: PeRef,
    /// Which rows of the tensor's matrix.
    pub rows: Range<u64>,
    /// Which columns of them.
    pub columns: Range<u64>,
    /// Where it begins in the tensor's addresses; copies of a part have the same.
    pub offset_bytes: u64,
    /// How long it is. It has at least one element.
    pub nbytes: u64,
}

impl Shard {
    /// The range of the tensor's addresses that it is.
    pub fn bytes(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.nbytes
    }
}

/// Who holds what of a tensor: the outcome of [`Placement::resolve`](super::Placement::resolve).
///
/// The tensor consists of different parts, which fill its addresses without a gap; each is held by
/// [`copies`](Self::copies) PEs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) nbytes: u64,
    /// Of SIP, cube and PE.
    pub(super) splits: [Split; 3],
    pub(super) copies: usize,
    /// Part after part, of each its copies by PE.
    pub(super) shards: Vec<Shard>,
    pub(super) sips: Vec<SipId>,
    pub(super) cubes: Vec<CubeId>,
    /// All PEs of a cube, also those that the placement leaves out.
    pub(super) pes: Vec<PeId>,
}

impl Layout {
    /// The tensor's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// What its elements are.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// How many bytes it has, each counted once.
    pub fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// How many bytes all its copies take.
    pub fn held_bytes(&self) -> u128 {
        u128::from(self.nbytes) * self.copies as u128
    }

    /// How many PEs hold each part: the product of the counts of the levels that replicate.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// What the SIPs, the cubes and the PEs do with it.
    pub fn splits(&self) -> [Split; 3] {
        self.splits
    }

    /// The SIPs that it is placed on.
    pub fn sips(&self) -> &[SipId] {
        &self.sips
    }

    /// The cubes of each SIP that it is placed on.
    pub fn cubes(&self) -> &[CubeId] {
        &self.cubes
    }

    /// All shards: by offset, and copies of the same part by PE. No PE has two.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The different parts by offset, each as the shards that are its copies, by PE.
    ///
    /// ```
    /// # use cubeyard_device::topology::Topology;
    /// # use cubeyard_runtime::{dtype::DType, placement::{Placement, Split}};
    /// let placement = Placement { pe: Split::RowWise, ..Placement::default() };
    /// let layout = placement.resolve("64x8".parse()?, DType::I8, &Topology::embedded())?;
    /// let parts: Vec<_> = layout.parts().map(|copies| (copies[0].bytes(), copies.len())).collect();
    /// assert_eq!(parts[..2], [(0..64, 16), (64..128, 16)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &[Shard]> {
        self.shards.chunks_exact(self.copies)
    }

    /// The copy that a PE uses of the byte at an offset: its own, else the first in its cube, else the
    /// first in its SIP, else the first. `None` beyond the tensor's end. Takes logarithmic time.
    ///
    /// ```
    /// # use cubeyard_device::{request::PeRef, topology::Topology};
    /// # use cubeyard_memory::address::{CubeId, PeId, SipId};
    /// # use cubeyard_runtime::{dtype::DType, placement::{Placement, Split}};
    /// let placement = Placement { pe: Split::RowWise, ..Placement::default() };
    /// let layout = placement.resolve("64x8".parse()?, DType::I8, &Topology::embedded())?;
    /// let pe = PeRef { sip: SipId::new(0)?, cube: CubeId::new(3)?, pe: PeId::new(2)? };
    /// assert_eq!(layout.holder_for(pe, 0).unwrap().at.to_string(), "sip0.cube3.pe0");
    /// assert_eq!(layout.holder_for(pe, 128).unwrap().at, pe);
    /// assert!(layout.holder_for(pe, 512).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holder_for(&self, pe: PeRef, offset: u64) -> Option<&Shard> {
        if offset >= self.nbytes {
            return None;
        }
        let after = self.shards.partition_point(|shard| shard.offset_bytes <= offset);
        Some(&self.shards[self.copy_for(pe, after - self.copies)])
    }

    /// Which of the copies from index `first` on a PE uses.
    pub(super) fn copy_for(&self, pe: PeRef, first: usize) -> usize {
        let copies = &self.shards[first..first + self.copies];
        let nearest = |at: PeRef| {
            let place = copies.partition_point(|copy| copy.at < at);
            copies.get(place).map(|copy| (place, copy.at))
        };
        let lowest = PeRef { pe: self.pes[0], ..pe };
        let own = nearest(pe).filter(|&(_, at)| at == pe);
        let in_cube = || nearest(lowest).filter(|(_, at)| (at.sip, at.cube) == (pe.sip, pe.cube));
        let in_sip =
            || nearest(PeRef { cube: self.cubes[0], ..lowest }).filter(|(_, at)| at.sip == pe.sip);
        first + own.or_else(in_cube).or_else(in_sip).map_or(0, |(place, _)| place)
    }
}
