//! Placements resolved on a machine.

use std::ops::Range;

use cubeyard_device::request::PeRef;
use cubeyard_memory::address::{CubeId, PeId, SipId};

use super::Split;
use crate::dtype::DType;
use crate::shape::Shape;

/// Part of a tensor that one PE holds: a rectangle of its matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// PE that holds the shard.
    pub at: PeRef,
    /// Rows of the tensor's matrix.
    pub rows: Range<u64>,
    /// Columns of the tensor's matrix.
    pub columns: Range<u64>,
    /// Offset in the tensor's addresses, in bytes; the same for all copies of a part.
    pub offset_bytes: u64,
    /// Size in bytes, at least one element.
    pub nbytes: u64,
}

impl Shard {
    /// Returns the number of elements in the shard.
    pub fn elements(&self) -> u64 {
        (self.rows.end - self.rows.start) * (self.columns.end - self.columns.start)
    }

    /// Returns the shard's range of the tensor's addresses, in bytes.
    pub fn bytes(&self) -> Range<u64> {
        self.offset_bytes..self.offset_bytes + self.nbytes
    }
}

/// Shards of a tensor on a machine: the result of [`Placement::resolve`](super::Placement::resolve).
///
/// The parts of the tensor fill its addresses without a gap; each is held by [`copies`](Self::copies) PEs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) shape: Shape,
    pub(super) dtype: DType,
    pub(super) nbytes: u64,
    /// Splits of SIPs, cubes and PEs.
    pub(super) splits: [Split; 3],
    pub(super) copies: usize,
    /// Shards by part, then by PE.
    pub(super) shards: Vec<Shard>,
    pub(super) sips: Vec<SipId>,
    pub(super) cubes: Vec<CubeId>,
    /// All PEs of a cube, including those that hold nothing.
    pub(super) pes: Vec<PeId>,
    pub(super) placed_pes: usize,
}

impl Layout {
    /// Returns the tensor's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the tensor's element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size in bytes of one copy.
    pub fn nbytes(&self) -> u64 {
        self.nbytes
    }

    /// Returns the size in bytes of all copies.
    pub fn held_bytes(&self) -> u128 {
        u128::from(self.nbytes) * self.copies as u128
    }

    /// Returns the number of PEs that hold each part.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Returns the splits over SIPs, cubes and PEs.
    pub fn splits(&self) -> [Split; 3] {
        self.splits
    }

    /// Returns the SIPs that the tensor is placed on.
    pub fn sips(&self) -> &[SipId] {
        &self.sips
    }

    /// Returns the cubes of each SIP that the tensor is placed on.
    pub fn cubes(&self) -> &[CubeId] {
        &self.cubes
    }

    /// Returns the number of PEs of each cube, counted from the first, that the tensor is placed on.
    pub fn placed_pes(&self) -> usize {
        self.placed_pes
    }

    /// Returns the sizes of the smallest and the largest shard, in bytes.
    pub fn bytes_of_holders(&self) -> (u64, u64) {
        let bytes = || self.shards.iter().map(|shard| shard.nbytes);
        (bytes().min().unwrap_or_default(), bytes().max().unwrap_or_default())
    }

    /// Returns all shards by offset, copies of the same part by PE. No PE has two.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Returns the parts by offset, each as the shards that are its copies, by PE.
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

    /// Returns the copy of the byte at an offset that a PE uses: its own copy, else the first in its cube, else the
    /// first in its SIP, else the first. Returns `None` beyond the tensor's end. Takes logarithmic time.
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

    /// Returns the index of the copy that a PE uses, among the copies from index `first` on.
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
