//! Operations on one live block, by its slot and key.

use super::{Slot, slot_key};
use crate::flex::VirtualAddress;
use crate::flex::error::FreeError;
use crate::flex::region::RegionState;
use crate::index::{Block, BlockKey};
use crate::sync::Arc;

impl Slot {
    pub(crate) fn free(self: &Arc<Self>, key: BlockKey) -> Result<(), FreeError> {
        self.shared.journal.tick();
        let mut state = self.enter();
        let outcome = self.let_go(&mut state.region, key);
        self.leave_freed(state);
        outcome
    }

    pub(crate) fn free_at(self: &Arc<Self>, address: VirtualAddress) -> Result<(), FreeError> {
        self.shared.journal.tick();
        let mut state = self.enter();
        let outcome = state.region.reclaim_at(address).and_then(|key| {
            drop(self.shared.moves.remove_at((self.number, key)));
            self.let_go(&mut state.region, key)
        });
        self.leave_freed(state);
        outcome
    }

    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut RegionState) -> T) -> T {
        act(&mut self.enter().region)
    }

    pub(crate) fn find(
        self: &Arc<Self>,
        key: BlockKey,
    ) -> Result<(VirtualAddress, Block), FreeError> {
        let state = self.enter();
        let (block, _) = state.region.owned(key)?;
        Ok((state.region.region().address(block.offset), block))
    }

    /// Removes a pin; the last pin frees a block that its owner has already freed. Both happen under one lock, so
    /// compaction never finds a freed block without a pin, which it would move.
    pub(crate) fn unpin(self: &Arc<Self>, key: BlockKey) {
        self.shared.journal.tick();
        let mut state = self.enter();
        if state.region.unpin(key) {
            let freed = self.let_go(&mut state.region, key);
            freed.expect("an orphan is live until its last pin");
            self.leave_freed(state);
        }
    }
}

/// Calls `act` on a handle's block at its current place. If compaction moves the block in the meantime, `act` is called
/// again at the new place.
pub(crate) fn follow<T>(
    slot: &Arc<Slot>,
    key: BlockKey,
    mut act: impl FnMut(&Arc<Slot>, BlockKey) -> Result<T, FreeError>,
) -> Result<T, FreeError> {
    let handle = (slot.number, key);
    let moves = &slot.shared.moves;
    let mut place = moves.get(handle);
    loop {
        let (at, at_key) = place.as_ref().map_or((slot, key), |(slot, key)| (slot, *key));
        let outcome = act(at, at_key);
        if outcome.is_ok() {
            return outcome;
        }
        let now = moves.get(handle);
        if now.as_ref().map(slot_key) == place.as_ref().map(slot_key) {
            return outcome;
        }
        place = now;
    }
}

#[inline]
pub(crate) fn free_now(slot: Arc<Slot>, key: BlockKey) {
    let (mut slot, mut key) = (slot, key);
    loop {
        let (moves, place) = (&slot.shared.moves, (slot.number, key));
        if let Some(next) = moves.remove(place, slot_key) {
            (slot, key) = next;
        } else {
            match slot.free(key) {
                Ok(()) => return,
                // Compaction moved the block first; the table of moved blocks has the new place.
                Err(_) if moves.contains(place) => {}
                Err(error) => panic!("a handle's block is live: {error}"),
            }
        }
    }
}
