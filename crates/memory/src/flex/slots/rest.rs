//! Returning the memory of paused blocks to the device, and committing it again.

use super::{Shared, Slot};
use crate::Bytes;
use crate::device::RegionHandle;
use crate::flex::config::Growth;
use crate::flex::error::FreeError;
use crate::flex::history::Action;
use crate::flex::pools::PoolState;
use crate::flex::region::{CommitPlan, RegionState};
use crate::flex::tag::Tag;
use crate::index::BlockKey;
use crate::policy::TagId;
use crate::sync::{Arc, TurnGuard};

impl Slot {
    /// Waits for the turn of device calls about the region. The caller is in no such call on this thread.
    pub(crate) fn take_turn(&self) -> TurnGuard<'_> {
        self.turn.take().expect("the thread is in no call about the region")
    }

    /// Frees a block if it is paused and not pinned, and returns whether it was.
    #[cold]
    pub(super) fn free_paused(
        &self,
        state: &mut RegionState,
        key: BlockKey,
    ) -> Result<bool, FreeError> {
        let Some((size, tag)) = state.free_paused(key)? else { return Ok(false) };
        if tag != TagId::NONE {
            self.shared.tags.free(tag, size);
        }
        Ok(true)
    }

    /// Decommits the memory under blocks that are about to be paused. Returns the number of bytes.
    pub(crate) fn pause(self: &Arc<Self>, keys: &[BlockKey]) -> Bytes {
        let turn = self.take_turn();
        self.shared.journal.tick();
        let mut state = self.enter();
        for &key in keys {
            let Some(offset) = state.region.pausing(key).map(|block| block.offset) else {
                continue;
            };
            let site = self.shared.journal.site(state.region.region().base + offset.get());
            let block = state.region.rest(key, site);
            let stream = state.region.stream(key, Tag::from_bits(block.tag));
            self.record_replaced(&state.region, &block, stream);
        }
        let Some((handle, parts)) = state.region.release_resting(keys) else { return Bytes::ZERO };
        self.record_parts(Action::SegmentUnmap, state.region.region(), &parts);
        let pool = state.pool.clone();
        self.leave(state);
        let bytes = self.shared.decommit(&handle, &parts, pool.as_deref());
        drop(turn);
        bytes
    }

    /// Plans the commit for paused blocks; the caller has the turn.
    pub(crate) fn plan_resume(
        self: &Arc<Self>,
        keys: &[BlockKey],
    ) -> (CommitPlan, Option<Arc<PoolState>>) {
        let recycle = matches!(self.shared.config.growth, Growth::Recycle(_));
        let mut state = self.enter();
        let plan = state.region.plan_resume(keys, recycle);
        self.record_parts(Action::SegmentUnmap, state.region.region(), &plan.idle);
        let pool = state.pool.clone();
        self.leave(state);
        (plan, pool)
    }

    /// Completes blocks for which `committed` was committed.
    pub(crate) fn finish_resume(self: &Arc<Self>, keys: &[BlockKey], committed: &[(Bytes, Bytes)]) {
        let mut state = self.enter();
        self.record_parts(Action::SegmentMap, state.region.region(), committed);
        state.region.mark_committed(committed);
        for &key in keys {
            if let Some((block, site)) = state.region.wake(key) {
                self.record_placed(Action::Alloc, &state.region, &block, site);
            }
        }
        self.leave(state);
    }
}

impl Shared {
    /// Decommits parts of a region of a pool, and returns the number of bytes.
    pub(crate) fn decommit(
        &self,
        handle: &RegionHandle,
        parts: &[(Bytes, Bytes)],
        pool: Option<&PoolState>,
    ) -> Bytes {
        parts.iter().for_each(|&(offset, size)| self.device.decommit(handle, offset, size));
        self.count_in(pool, |counters| counters.device_frees += parts.len() as u64);
        let bytes = parts.iter().map(|&(_, size)| size).sum();
        pool.inspect(|pool| pool.put_back(bytes));
        bytes
    }
}
