//! Placing blocks, and committing the memory that they lack.

#![expect(clippy::inline_always, reason = "parts of the path of a request")]

use super::{Shared, Slot, SlotBlock};
use crate::Bytes;
use crate::flex::config::Growth;
use crate::flex::event::Event;
use crate::flex::history::Action;
use crate::flex::pools::{Domain, PoolState};
use crate::flex::region::{CommitPlan, PlacedBlock, Region, RegionState};
use crate::index::BlockKey;
use crate::policy::Request;
use crate::sync::Arc;

impl Slot {
    /// Places a request in this slot; changes nothing if there is no room, or no memory for it.
    pub(crate) fn try_allocate(self: &Arc<Self>, request: &Request) -> Option<SlotBlock> {
        let mut state = self.enter_swept();
        let placed = self.place(&mut state.region, request);
        let spare = placed.and_then(|_| state.spare.pop());
        self.leave(state);
        let key = self.complete_place(placed?, request.site)?;
        Some((spare.unwrap_or_else(|| Arc::clone(self)), key))
    }

    /// Places a request where the region already has memory: the last resort when the device has none left.
    pub(crate) fn try_backed(self: &Arc<Self>, request: &Request) -> Option<SlotBlock> {
        let mut state = self.enter();
        let placed = self.place_backed(&mut state.region, request)?;
        self.leave(state);
        Some(placed)
    }

    /// Does the same as [`try_backed`](Self::try_backed) in a slot that is already locked.
    pub(crate) fn place_backed(
        self: &Arc<Self>,
        state: &mut RegionState,
        request: &Request,
    ) -> Option<SlotBlock> {
        if !self.accepts(request) {
            return None;
        }
        let block = state.place_backed(request)?;
        self.record_placed(Action::Alloc, state, &block, request.site);
        Some((Arc::clone(self), block.key))
    }

    #[inline(always)]
    pub(super) fn place(&self, state: &mut RegionState, request: &Request) -> Option<PlacedBlock> {
        if !self.accepts(request) {
            return None;
        }
        // More than the device's total memory could never be committed, and would need a huge number of granules.
        if request.size > self.shared.total && state.get().is_some_and(Region::is_growable) {
            return None;
        }
        let placed = state.place(request)?;
        if placed.backed && self.is_recorded() {
            self.record_placed(Action::Alloc, state, &state.block(placed.key), request.site);
        }
        Some(placed)
    }

    /// Returns whether the region is of the request's domain. A slot that was chosen without its lock may have another
    /// region by now.
    #[inline]
    fn accepts(&self, request: &Request) -> bool {
        self.domain() == Domain::of(request, &self.shared.config)
    }

    /// Commits the memory that a placed block lacks; removes the block if there is none.
    #[inline(always)]
    pub(crate) fn complete_place(
        self: &Arc<Self>,
        placed: PlacedBlock,
        site: u32,
    ) -> Option<BlockKey> {
        (placed.backed || self.commit(placed.key, site)).then_some(placed.key)
    }

    /// Returns whether there was enough memory; if not, the block has been removed.
    #[cold]
    fn commit(self: &Arc<Self>, key: BlockKey, site: u32) -> bool {
        let Some(turn) = self.turn.take() else {
            // This thread is already committing to the region; the device is not called recursively.
            return self.finish_commit(key, &[], site);
        };
        let (plan, pool) = self.plan_commit(key);
        let done = self.shared.commit_within(&plan, pool.as_deref());
        self.shared.journal.tick();
        let outcome = self.finish_commit(key, if done { &plan.missing } else { &[] }, site);
        drop(turn);
        outcome
    }

    pub(super) fn plan_commit(
        self: &Arc<Self>,
        key: BlockKey,
    ) -> (CommitPlan, Option<Arc<PoolState>>) {
        let recycle = matches!(self.shared.config.growth, Growth::Recycle(_));
        let mut state = self.enter();
        let plan = state.region.plan_commit(key, recycle);
        self.record_parts(Action::SegmentUnmap, state.region.region(), &plan.idle);
        (plan, state.pool.clone())
    }

    fn finish_commit(
        self: &Arc<Self>,
        key: BlockKey,
        committed: &[(Bytes, Bytes)],
        site: u32,
    ) -> bool {
        let mut state = self.enter();
        self.record_parts(Action::SegmentMap, state.region.region(), committed);
        let free = |stream| self.shared.streams.free_own(stream, Bytes::ZERO);
        let placed = state.region.finish_commit(key, committed, free);
        if let Some(block) = &placed {
            self.record_placed(Action::Alloc, &state.region, block, site);
        }
        self.leave(state);
        placed.is_some()
    }

    /// Records the parts of a region that were committed or decommitted.
    pub(super) fn record_parts(&self, action: Action, region: &Region, parts: &[(Bytes, Bytes)]) {
        for &part in parts {
            self.shared.journal.record(Event::about(action, region, part));
        }
    }
}

impl Shared {
    /// Makes the planned calls to the device within the limit of a pool, and returns whether there was memory.
    pub(crate) fn commit_within(&self, plan: &CommitPlan, pool: Option<&PoolState>) -> bool {
        match pool {
            None => self.call_commit(plan, None),
            Some(pool) => self.commit_in_pool(plan, pool),
        }
    }

    /// Makes the planned calls to the device within the limit of the pool, and returns whether there was memory. Idle
    /// granules that the plan names are returned in any case: they count as decommitted already.
    fn commit_in_pool(&self, plan: &CommitPlan, pool: &PoolState) -> bool {
        let sum = |parts: &[(Bytes, Bytes)]| parts.iter().map(|&(_, size)| size).sum::<Bytes>();
        let (missing, idle) = (sum(&plan.missing), sum(&plan.idle));
        let allowed = pool.take(missing.saturating_sub(idle));
        if !allowed {
            let CommitPlan { handle, idle, .. } = plan;
            let only_idle =
                CommitPlan { handle: handle.duplicate(), missing: Vec::new(), idle: idle.clone() };
            self.call_commit(&only_idle, Some(pool));
        }
        let done = allowed && self.call_commit(plan, Some(pool));
        if done {
            pool.put_back(idle.saturating_sub(missing));
        } else if allowed {
            pool.put_back(idle.max(missing));
        } else {
            pool.put_back(idle);
        }
        done
    }

    /// Makes the planned calls to the device, and returns whether it had the memory.
    fn call_commit(
        &self,
        CommitPlan { handle, missing, idle }: &CommitPlan,
        pool: Option<&PoolState>,
    ) -> bool {
        let decommit =
            |&(offset, size): &(Bytes, Bytes)| self.device.decommit(handle, offset, size);
        idle.iter().for_each(decommit);
        let commit = |&&(offset, size): &&(Bytes, Bytes)| self.device.commit(handle, offset, size);
        let done = missing.iter().take_while(commit).count();
        let failed = done < missing.len();
        if failed {
            missing[..done].iter().for_each(decommit);
        }
        self.count_in(pool, |counters| {
            counters.device_allocs += done as u64;
            counters.device_frees += idle.len() as u64 + if failed { done as u64 } else { 0 };
        });
        !failed
    }
}
