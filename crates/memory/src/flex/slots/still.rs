//! Stills of a slot's region, and regions restored from them.

use super::Slot;
use crate::Bytes;
use crate::flex::region::{Region, RegionState};
use crate::flex::still::{StillBlock, StillRegion};
use crate::sync::Arc;

impl Slot {
    /// Returns a still of the slot's region, which is locked.
    pub(crate) fn still(&self, state: &mut RegionState) -> Option<StillRegion> {
        state.get_mut()?.index.join_quick();
        let region: &Region = state.get()?;
        let committed = if region.is_growable() { region.backed() } else { Vec::new() };
        Some(StillRegion {
            slot: self.number,
            since: self.since(),
            id: region.handle.id,
            size: region.handle.size,
            reserved: region.reserved(),
            domain: self.domain(),
            pool: region.pool,
            committed,
            base: region.base,
            blocks: state.still_blocks(),
        })
    }

    /// Places the blocks of a still in the slot's empty region. Returns the parts that must be committed.
    pub(crate) fn restore<'a>(
        self: &Arc<Self>,
        committed: &[(Bytes, Bytes)],
        blocks: impl Iterator<Item = &'a StillBlock>,
    ) -> Option<Vec<(Bytes, Bytes)>> {
        let mut state = self.enter();
        let parts = state.region.restore(committed, blocks);
        self.leave(state);
        parts
    }
}
