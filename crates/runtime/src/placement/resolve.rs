//! Resolution of a placement over a shape and a machine.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};

use super::split::Rectangle;
use super::{Layout, Level, Placement, PlacementError, Shard, Split};
use crate::dtype::DType;
use crate::shape::Shape;

impl Placement {
    /// Returns the shards of a tensor on a machine, in time and memory proportional to their number.
    pub fn resolve(
        &self,
        shape: Shape,
        dtype: DType,
        topology: &Topology,
    ) -> Result<Layout, PlacementError> {
        let nbytes = shape.nbytes(dtype)?;
        self.check_sips(topology)?;
        let spec = topology.spec();
        let cubes = limited(Level::Cube, self.cubes, spec.cube_count())?;
        let pes = limited(Level::Pe, self.pes, spec.pe_count())?;
        let mut sips = self.sips.clone();
        if self.sip == Split::Replicate {
            sips.sort_unstable();
        }
        let cubes: Vec<CubeId> = topology.cubes().take(cubes).collect();
        let all_pes: Vec<PeId> = topology.pes().collect();
        let places = Places {
            sips: (self.sip, &sips),
            cubes: (self.cube, &cubes),
            pes: (self.pe, &all_pes[..pes]),
        };
        let shards = places.shards(shape, dtype);
        Ok(Layout {
            shape,
            dtype,
            nbytes,
            splits: [self.sip, self.cube, self.pe],
            copies: places.copies(),
            shards,
            sips,
            cubes,
            pes: all_pes,
            placed_pes: pes,
        })
    }

    fn check_sips(&self, topology: &Topology) -> Result<(), PlacementError> {
        let there = topology.spec().sips.count;
        if self.sips.is_empty() {
            return Err(PlacementError::Nowhere { level: Level::Sip });
        }
        for (place, &sip) in self.sips.iter().enumerate() {
            if sip.number() >= there {
                return Err(PlacementError::NoSuchSip { sip, there });
            }
            if self.sips[..place].contains(&sip) {
                return Err(PlacementError::SipTwice { sip });
            }
        }
        Ok(())
    }
}

fn limited(level: Level, limit: Option<u32>, there: u32) -> Result<usize, PlacementError> {
    let asked = limit.unwrap_or(there);
    if asked == 0 {
        return Err(PlacementError::Nowhere { level });
    }
    if asked > there {
        return Err(PlacementError::TooMany { level, asked, there });
    }
    Ok(usize::try_from(asked).expect("a machine fits the memory"))
}

/// SIPs, cubes and PEs that hold a part, with their splits.
struct Places<'a> {
    sips: (Split, &'a [SipId]),
    cubes: (Split, &'a [CubeId]),
    pes: (Split, &'a [PeId]),
}

impl Places<'_> {
    fn copies(&self) -> usize {
        let copies = |split: Split, count: usize| count / split.parts(count);
        copies(self.sips.0, self.sips.1.len())
            * copies(self.cubes.0, self.cubes.1.len())
            * copies(self.pes.0, self.pes.1.len())
    }

    fn shards(&self, shape: Shape, dtype: DType) -> Vec<Shard> {
        let mut shards =
            Vec::with_capacity(self.sips.1.len() * self.cubes.1.len() * self.pes.1.len());
        let (rows, columns) = shape.matrix();
        let whole = Rectangle { rows: 0..rows, columns: 0..columns };
        let mut offset_bytes = 0;
        for (sips, of_sip) in parts(self.sips, &whole) {
            for (cubes, of_cube) in parts(self.cubes, &of_sip) {
                for (pes, part) in parts(self.pes, &of_cube) {
                    // At most the size of the tensor, which fits in 64 bits.
                    let nbytes = part.elements() * dtype.size();
                    let Rectangle { rows, columns } = part;
                    let shard = |at| Shard {
                        at,
                        rows: rows.clone(),
                        columns: columns.clone(),
                        offset_bytes,
                        nbytes,
                    };
                    shards.extend(every(sips, cubes, pes).map(shard));
                    offset_bytes += nbytes;
                }
            }
        }
        shards
    }
}

/// Splits a part over the members of a level; returns the parts that are not empty with their holders.
fn parts<'a, T>(
    (split, places): (Split, &'a [T]),
    whole: &Rectangle,
) -> impl Iterator<Item = (&'a [T], Rectangle)> {
    let each = places.len() / split.parts(places.len());
    let part = move |(index, holders)| (holders, split.part(whole, index, places.len()));
    places.chunks(each).enumerate().map(part).filter(|(_, part)| part.elements() > 0)
}

/// Returns every PE of these cubes of these SIPs, in order.
pub(super) fn every(sips: &[SipId], cubes: &[CubeId], pes: &[PeId]) -> impl Iterator<Item = PeRef> {
    sips.iter().flat_map(move |&sip| {
        cubes.iter().flat_map(move |&cube| pes.iter().map(move |&pe| PeRef { sip, cube, pe }))
    })
}
