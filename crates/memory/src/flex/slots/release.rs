//! Returning memory to the device: idle regions, and idle granules of growable ones.

use super::{Shared, Slot, SlotState};
use crate::Bytes;
use crate::flex::config::Release;
use crate::flex::history::Action;
use crate::flex::pools::PoolState;
use crate::flex::region::Region;
use crate::sync::{Arc, MutexGuard, Ordering, TurnGuard, lock};

/// The right to acquire and release regions. Dropping it performs the releases that were deferred.
pub(crate) struct RegionTurn<'a> {
    shared: &'a Shared,
    turn: Option<TurnGuard<'a>>,
}

impl Drop for RegionTurn<'_> {
    fn drop(&mut self) {
        self.turn = None;
        if !std::thread::panicking() {
            self.shared.after_turn();
        }
    }
}

impl Shared {
    /// Waits for the turn. Refuses a thread that already has it, since the thread is inside a call to the device.
    pub(crate) fn take_turn(&self) -> Option<RegionTurn<'_>> {
        let turn = Some(self.turn.take()?);
        Some(RegionTurn { shared: self, turn })
    }

    /// Polls the streams and releases idle memory after a free, with no lock held.
    pub(crate) fn after_free(&self, idle: bool) {
        // Other ranges are polled for by requests; here, memory may become idle without one.
        if self.streams.len() > 0 || self.is_eager() {
            self.poll(None);
        }
        self.release_idle(idle);
        self.deliver();
    }

    /// Releases idle memory if configured, now or at the end of another thread's turn. A device that frees a block
    /// during a call must not wait for itself.
    pub(super) fn release_idle(&self, idle: bool) {
        if idle && self.is_eager() {
            self.release_wanted.store(true, Ordering::SeqCst);
            self.after_turn();
        }
    }

    fn after_turn(&self) {
        while self.release_wanted.load(Ordering::SeqCst) || self.trim_wanted.load(Ordering::SeqCst)
        {
            let slots = self.slots();
            let Some(_turn) = self.turn.try_take() else { return };
            let trim = self.trim_wanted.swap(false, Ordering::SeqCst);
            self.release_wanted.store(false, Ordering::SeqCst);
            if trim || self.is_idle_above_limit(&slots) {
                self.give_back(&slots, true, false);
            }
            self.release_of_pools();
        }
    }

    /// Returns the idle memory of closed pools, and of pools with a deferred trim; needs the turn.
    fn release_of_pools(&self) {
        // Set before the regions are looked at: a thread that frees a block afterwards finds it set.
        self.set_eager(self.pools.forget_closed());
        for pool in self.pools.take_wanting() {
            self.give_back(&self.slots_of(pool), true, false);
        }
        self.set_eager(self.pools.forget_closed());
    }

    fn set_eager(&self, closed: bool) {
        self.eager.store(closed || self.config.release != Release::Never, Ordering::Relaxed);
    }

    /// Requests the release of the idle memory of closed pools, and of pools with a deferred trim; now or at the end of
    /// the turn.
    pub(crate) fn release_wanting(&self) {
        self.eager.store(true, Ordering::Relaxed);
        self.release_wanted.store(true, Ordering::SeqCst);
        self.after_turn();
    }

    fn is_idle_above_limit(&self, slots: &[Arc<Slot>]) -> bool {
        let Release::WhenIdle(limit) = self.config.release else { return false };
        slots.iter().filter_map(Slot::idle_bytes).sum::<Bytes>() > limit
    }

    /// Releases idle regions and decommits idle granules, and returns the number of bytes. Inside a call to the device,
    /// the work is deferred until the call has returned, and zero is returned.
    pub(crate) fn trim(&self) -> Bytes {
        self.collect_posts();
        let slots = self.slots();
        let Some(_turn) = self.take_turn() else {
            self.trim_wanted.store(true, Ordering::SeqCst);
            return Bytes::ZERO;
        };
        self.give_back(&slots, true, true)
    }

    /// Decommits idle granules, and with `regions` releases idle regions; needs the turn. With `wait`, it waits for
    /// threads that are committing to a region.
    pub(crate) fn give_back(&self, slots: &[Arc<Slot>], regions: bool, wait: bool) -> Bytes {
        self.journal.tick();
        let mut given = Bytes::ZERO;
        for slot in slots {
            let region = if regions { self.release(slot) } else { None };
            let bytes = region.unwrap_or_else(|| slot.shrink(wait));
            if region.is_some() || !bytes.is_zero() {
                self.note_change();
            }
            given += bytes;
        }
        given
    }

    /// Releases a slot's region if it is idle, and returns the size of its memory; needs the turn.
    pub(crate) fn release(&self, slot: &Arc<Slot>) -> Option<Bytes> {
        let (region, pool) = slot.take_idle_region()?;
        let bytes = region.reserved();
        lock(&self.regions).segments.retire(region.handle.id);
        self.device.release(region.handle);
        pool.as_ref().inspect(|pool| pool.put_back(bytes));
        self.count_in(pool.as_deref(), |counters| counters.device_frees += 1);
        lock(&self.regions).refused = false;
        Some(bytes)
    }

    /// Closes an allocator; its blocks may remain. Leaked blocks cannot be freed any more, and only the owners of the
    /// other blocks will poll the streams.
    pub(super) fn close(&self, slots: &[Arc<Slot>]) {
        self.closed.store(true, Ordering::Release);
        self.collect_posts();
        // Blocks in an inbox and spare references keep their slot alive; entering the slot empties the inbox.
        slots.iter().for_each(|slot| slot.enter().spare.clear());
        self.synchronize();
        slots.iter().for_each(|slot| drop(slot.enter_swept()));
        for (slot, key) in self.moves.all() {
            if slot.with(|region| region.owned(key).is_ok_and(|(_, tag)| tag.is_leaked())) {
                drop(self.moves.remove_at((slot.number, key)));
            }
        }
    }
}

impl Slot {
    fn take_idle_region(self: &Arc<Self>) -> Option<(Region, Option<Arc<PoolState>>)> {
        let mut state = self.enter();
        let region = state.region.take_idle_region()?;
        self.publish(&mut state.region);
        state.region.counts.join(None);
        let pool = state.pool.take();
        self.record_released(&region);
        self.leave(state);
        Some((region, pool))
    }

    /// Records that a region was released, with its memory.
    pub(super) fn record_released(&self, region: &Region) {
        if region.is_growable() {
            self.record_parts(Action::SegmentUnmap, region, &region.backed());
        } else {
            self.record_whole(Action::SegmentFree, region);
        }
    }

    /// Decommits idle granules, and returns the number of bytes. Without `wait` it does nothing while a thread is
    /// committing: that may be this very thread, in a device that frees blocks.
    fn shrink(self: &Arc<Self>, wait: bool) -> Bytes {
        let turn = if wait { self.turn.take() } else { self.turn.try_take() };
        let Some(turn) = turn else { return Bytes::ZERO };
        let mut state: MutexGuard<'_, SlotState> = self.enter();
        let Some((handle, idle)) = state.region.shrink() else { return Bytes::ZERO };
        self.record_parts(Action::SegmentUnmap, state.region.region(), &idle);
        let pool = state.pool.clone();
        self.leave(state);
        let bytes = self.shared.decommit(&handle, &idle, pool.as_deref());
        drop(turn);
        bytes
    }
}
