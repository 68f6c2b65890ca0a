//! Blocks of each device's allocator when the snapshot was taken.

use std::collections::{BTreeMap, btree_map};

use super::{Cursor, Sites, SnapshotError};
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

#[derive(Debug)]
pub(super) struct Block {
    pub(super) address: u64,
    pub(super) size: Bytes,
    pub(super) stream: i128,
    pub(super) site: u32,
    /// Whether the program has freed the block, but a stream still uses it.
    pub(super) pending: bool,
    /// Indices of the segment, and of the block within it.
    pub(super) place: (usize, usize),
}

impl Block {
    /// Returns the path in the snapshot, for errors.
    pub(super) fn part(&self) -> String {
        format!("segments[{}].blocks[{}]", self.place.0, self.place.1)
    }
}

/// Blocks and reserved bytes of a device at the end.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) reserved: u64,
    pub(super) blocks: Vec<Block>,
}

/// Remaining blocks of each device that has any.
#[derive(Debug, Default)]
pub(super) struct Segments {
    devices: BTreeMap<u64, Remains>,
}

impl Segments {
    pub(super) fn read<'d>(
        list: &Cursor<'d, '_>,
        sites: &mut Sites<'d>,
        seen: &mut [bool],
        budget: &mut Budget,
    ) -> Result<Self, SnapshotError> {
        let mut segments = Self::default();
        for (index, segment) in (0..).zip(list.items()?) {
            segments.add(index, &segment.unseen(seen)?, sites, seen, budget)?;
        }
        Ok(segments)
    }

    fn add<'d>(
        &mut self,
        index: usize,
        segment: &Cursor<'d, '_>,
        sites: &mut Sites<'d>,
        seen: &mut [bool],
        budget: &mut Budget,
    ) -> Result<(), SnapshotError> {
        budget.charge(map_entry::<u64, Remains>())?;
        let remains = self.devices.entry(segment.field("device")?.unsigned()?).or_default();
        let total = segment.field("total_size")?;
        let sum = remains.reserved.checked_add(total.unsigned()?);
        remains.reserved = sum.ok_or_else(|| total.wrong("less than 2⁶⁴ bytes in all"))?;
        let stream = segment.field("stream")?.integer()?;
        let mut next = segment.field("address")?.unsigned()?;
        let blocks = segment.field("blocks")?;
        for (place, block) in (0..).zip(blocks.items()?) {
            let block = block.unseen(seen)?;
            // The address can be omitted: blocks are in order and cover their segment.
            let address = block.optional("address")?;
            let address = address.map_or(Ok(next), |address| address.unsigned())?;
            next = address.saturating_add(block.field("size")?.unsigned()?);
            if let Some((size, pending)) = use_of(&block)? {
                let site = sites.site(&block, budget)?;
                let place = (index, place);
                let block = Block { address, size, stream, site, pending, place };
                budget.push(&mut remains.blocks, block)?;
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, device: u64) -> Option<Remains> {
        self.devices.remove(&device)
    }
}

impl IntoIterator for Segments {
    type Item = (u64, Remains);
    type IntoIter = btree_map::IntoIter<u64, Remains>;

    fn into_iter(self) -> Self::IntoIter {
        self.devices.into_iter()
    }
}

/// Returns the requested size of a block in use, and whether its free is pending.
fn use_of(block: &Cursor<'_, '_>) -> Result<Option<(Bytes, bool)>, SnapshotError> {
    let state = block.field("state")?;
    let pending = match state.text()? {
        "active_allocated" => false,
        // PyTorch's code uses the first word, its documentation the second.
        "active_pending_free" | "active_awaiting_free" => true,
        "inactive" => return Ok(None),
        _ => return Err(state.wrong("`active_allocated`, `active_pending_free` or `inactive`")),
    };
    Ok(Some((Bytes::new(block.field("requested_size")?.unsigned()?), pending)))
}
