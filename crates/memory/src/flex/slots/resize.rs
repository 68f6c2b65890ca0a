//! Resizing a block in place, and committing the memory that it lacks.

use super::{Slot, SlotState, block_event};
use crate::Bytes;
use crate::flex::error::FreeError;
use crate::flex::event::Event;
use crate::flex::history::Action;
use crate::flex::region::{Cut, Grown, RegionState, Tail};
use crate::flex::resize::error::ResizeError;
use crate::flex::stream::Freed;
use crate::flex::tag::Tag;
use crate::index::{Block, BlockKey};
use crate::policy::TagId;
use crate::sync::{Arc, MutexGuard};

impl Slot {
    /// Resizes a live block whose tag is `usable`. If it is refused, blocks that wait in the mailboxes of threads are
    /// freed, and it is tried once more.
    pub(crate) fn resize(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        size: Bytes,
    ) -> Result<Result<(), ResizeError>, FreeError> {
        let outcome = self.try_resize(key, usable, size)?;
        let crowded =
            matches!(outcome, Err(ResizeError::Budget { .. } | ResizeError::NoRoom { .. }));
        if crowded && self.shared.config.region.thread_home {
            self.shared.collect_posts();
            return self.try_resize(key, usable, size);
        }
        Ok(outcome)
    }

    fn try_resize(
        self: &Arc<Self>,
        key: BlockKey,
        usable: fn(Tag) -> bool,
        size: Bytes,
    ) -> Result<Result<(), ResizeError>, FreeError> {
        let (_, stream) = self.with(|region| region.usable(key, usable))?;
        if size.is_zero() {
            return Ok(Err(ResizeError::ZeroBytes));
        }
        self.shared.journal.tick();
        self.shared.poll(Some(stream));
        let state = self.enter_swept();
        let (block, _) = state.region.usable(key, usable)?;
        let tag = state.region.tag(&block);
        let outcome = if state.region.is_resting(key)? {
            let address = state.region.region().address(block.offset);
            Err(ResizeError::Paused { address })
        } else if size <= block.size {
            self.shrink_block(state, &block, size)
        } else {
            self.grow_within(state, &block, tag, size)
        };
        self.shared.deliver();
        Ok(outcome)
    }

    /// Grows a block within the budget of its tag.
    fn grow_within(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, SlotState>,
        block: &Block,
        tag: TagId,
        size: Bytes,
    ) -> Result<(), ResizeError> {
        let tail = self.take_tail(&mut state, block, size)?;
        let more = state.region.block(tail.key).size;
        if let Err((budget, needed)) = self.shared.tags.charge_growth(tag, more) {
            self.finish_growth(&mut state.region, block, &tail, None, size);
            self.leave(state);
            return Err(ResizeError::Budget { tag, budget, needed });
        }
        let grown = self.grow(state, block, tail, size);
        match &grown {
            Ok(()) => self.record_crossing(tag, self.shared.tags.count_growth(tag, more)),
            Err(_) => self.shared.tags.discharge(tag, more),
        }
        grown
    }

    /// Records that growth has taken a tag above its soft budget, to `bytes`.
    fn record_crossing(&self, tag: TagId, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            let event = Event::new(Action::BudgetExceeded, bytes, 0);
            self.shared.journal.record(Event { tag, ..event });
        }
    }

    fn take_tail(
        &self,
        state: &mut SlotState,
        block: &Block,
        size: Bytes,
    ) -> Result<Tail, ResizeError> {
        // More than the device's total memory could never be committed, and would need a huge number of granules.
        if size > self.shared.total {
            return Err(ResizeError::NoMemory { needed: size - block.size });
        }
        state.region.take_tail(block, size)
    }

    fn grow(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, SlotState>,
        block: &Block,
        tail: Tail,
        size: Bytes,
    ) -> Result<(), ResizeError> {
        let mut refusal = ResizeError::NoMemory { needed: size - block.size };
        if tail.backed {
            let grown = self.finish_growth(&mut state.region, block, &tail, Some(&[]), size);
            self.leave(state);
            return grown.into_result(refusal);
        }
        self.leave(state);
        let turn = self.turn.take();
        let mut committed = Vec::new();
        if turn.is_some() {
            let (plan, pool) = self.plan_commit(tail.key);
            if self.shared.commit_within(&plan, pool.as_deref()) {
                committed = plan.missing;
            }
        } else {
            // This thread is already committing to the region; the device is not called recursively.
            refusal = ResizeError::Reentrant;
        }
        self.shared.journal.tick();
        let mut state = self.enter();
        let grown = self.finish_growth(&mut state.region, block, &tail, Some(&committed), size);
        self.leave(state);
        drop(turn);
        grown.into_result(refusal)
    }

    /// Adds a range to a block after `committed` was committed, or frees the range if that is `None`.
    fn finish_growth(
        &self,
        state: &mut RegionState,
        block: &Block,
        tail: &Tail,
        committed: Option<&[(Bytes, Bytes)]>,
        size: Bytes,
    ) -> Grown {
        self.record_parts(Action::SegmentMap, state.region(), committed.unwrap_or_default());
        let free = || self.shared.streams.free_own(tail.stream, Bytes::ZERO);
        let grown = state.finish_growth(block, tail, committed, size, free);
        if let Grown::Done(now) = &grown {
            self.record_resized(state, block, now, tail.stream);
        }
        grown
    }

    /// Gives a block a smaller size, and frees its end like a block.
    fn shrink_block(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, SlotState>,
        block: &Block,
        size: Bytes,
    ) -> Result<(), ResizeError> {
        let region = &mut state.region;
        let stream = region.stream(block.key, Tag::from_bits(block.tag));
        let tag = region.tag(block);
        let Cut { now, rest } = region.cut(block, size)?;
        self.shared.tags.cut(tag, block.size - now.size);
        if let Some((rest, others)) = rest {
            let freed = self.freed(stream, others, rest.size);
            region.count_cut(block, &now, matches!(freed, Freed::After(_)).then_some(&rest));
            self.record_resized(region, block, &now, stream);
            self.free_rest(region, &rest, stream, freed);
        } else {
            region.count_cut(block, &now, None);
            self.record_resized(region, block, &now, stream);
        }
        self.leave_freed(state);
        Ok(())
    }

    fn free_rest(
        self: &Arc<Self>,
        region: &mut RegionState,
        rest: &Block,
        stream: u32,
        freed: Freed,
    ) {
        match freed {
            Freed::After(others) => {
                self.record(Action::Alloc, region.region(), rest, stream);
                self.record(Action::FreeRequested, region.region(), rest, stream);
                region.set_pending(rest.key);
                let waiting = ((Arc::clone(self), rest.key), stream);
                self.shared.streams.wait_for(waiting, others);
            }
            Freed::InOrder(epoch) => region.free_rest(rest, Some((stream, epoch))),
            Freed::ForAll => region.free_rest(rest, None),
        }
    }

    /// Records a resized block as freed and allocated at the same address.
    fn record_resized(&self, state: &RegionState, before: &Block, now: &Block, stream: u32) {
        if self.shared.journal.is_kept() {
            let region = state.region();
            let site = self.shared.journal.site(region.base + before.offset.get());
            self.record_replaced(state, before, stream);
            self.record_placed(Action::Alloc, state, now, site);
        }
    }

    /// Records that a block is freed, whose key and owner stay.
    pub(super) fn record_replaced(&self, state: &RegionState, block: &Block, stream: u32) {
        if self.shared.journal.is_kept() {
            let event = block_event(Action::FreeRequested, state.region(), block, stream);
            self.shared.journal.record(Event { tag: state.tag(block), ..event });
            self.record(Action::FreeCompleted, state.region(), block, stream);
        }
    }
}

impl Grown {
    fn into_result(self, refusal: ResizeError) -> Result<(), ResizeError> {
        match self {
            Self::Done(_) => Ok(()),
            Self::Changed => Err(ResizeError::Changed),
            Self::NoMemory => Err(refusal),
        }
    }
}
