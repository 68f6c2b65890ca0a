//! Compaction: moving blocks so that free memory becomes contiguous.
//!
//! The allocator only plans. It reserves room for every block that is to move, the owner of the data copies the blocks,
//! and [`Compaction::commit`] redirects the handles to the new places. Dropping a plan without a commit frees the
//! reserved room and changes nothing.

use super::VirtualAddress;
use super::event::Event;
use super::history::Action;
use super::pools::Domain;
use super::region::{Moving, RegionState};
use super::slots::{Slot, SlotBlock, SlotState, block_event};
use super::tag::Tag;
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::stats::Places;
use crate::sync::Arc;

/// One block to be copied. Source and target do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Move {
    /// Current address of the block.
    pub from: VirtualAddress,
    /// New address of the block.
    pub to: VirtualAddress,
    /// Number of bytes to copy.
    pub size: Bytes,
}

/// A plan of moves, with room reserved for all of them.
#[derive(Debug)]
#[must_use = "a plan that is dropped moves nothing"]
pub struct Compaction {
    planned: Vec<Planned>,
    /// Number of bytes that may still be planned.
    left: Bytes,
}

/// Outcome of an attempt to empty a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptied {
    /// There is no block to move.
    Nothing,
    /// Some blocks have to stay.
    Refused,
    /// The budget ends before the last block.
    Part,
    /// All blocks move.
    Whole,
}

#[derive(Debug)]
struct Planned {
    shown: Move,
    /// New address in the flat address space.
    to_flat: u64,
    from: SlotBlock,
    to: SlotBlock,
}

impl Compaction {
    /// Creates an empty plan for at most `budget` bytes.
    pub(super) fn new(budget: Bytes) -> Self {
        Self { planned: Vec::new(), left: budget }
    }

    /// Returns the blocks to copy, in an order in which no copy overwrites a block that is still to be copied.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        self.planned.iter().map(|planned| planned.shown)
    }

    /// Returns whether no block is to move.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Returns the number of bytes to copy.
    pub fn bytes(&self) -> Bytes {
        self.planned.iter().map(|planned| planned.shown.size).sum()
    }

    /// Returns whether no further block can be planned.
    pub(super) fn is_full(&self) -> bool {
        self.left.is_zero()
    }

    /// Redirects handles to the new places and frees the old ones; the data must have been copied. A block that was
    /// freed, pinned or resized in the meantime stays in place, and its reserved room is freed. Returns the number of
    /// blocks that moved.
    pub fn commit(mut self) -> usize {
        let planned = std::mem::take(&mut self.planned);
        planned.into_iter().filter(Planned::commit).count()
    }

    /// Plans to move the blocks of a slot that existed at serial number `since` to others, as far as the budget reaches;
    /// plans nothing if they do not all fit.
    pub(super) fn empty(&mut self, slot: &Arc<Slot>, since: u32, others: &[&Arc<Slot>]) -> Emptied {
        let blocks = slot.movable_since(since);
        let all = slot.report().map_or(0, |region| region.blocks);
        if all == 0 {
            return Emptied::Nothing;
        }
        let planned = if blocks.len() < all { None } else { plan_all(slot, &blocks, others) };
        let Some(planned) = planned else { return Emptied::Refused };
        let mut planned = planned.into_iter();
        match planned.find_map(|planned| self.admit(planned).err()) {
            None => Emptied::Whole,
            Some(beyond) => {
                planned.chain([beyond]).for_each(Planned::abandon);
                Emptied::Part
            }
        }
    }

    /// Plans to move blocks of a slot below `limit`, the highest first, into lower free ranges, and lowers the limit to
    /// the last block that it considered. Returns whether the budget was enough.
    pub(super) fn close_up(&mut self, slot: &Arc<Slot>, since: u32, limit: &mut Bytes) -> bool {
        let blocks = slot.movable_since(since);
        let below = blocks.partition_point(|(block, _)| block.offset < *limit);
        for (block, alignment) in blocks[..below].iter().rev() {
            if self.is_full() {
                return false;
            }
            let planned = Planned::new(slot, block, *alignment, slot, Some(block.offset));
            if let Some(Err(beyond)) = planned.map(|planned| self.admit(planned)) {
                beyond.abandon();
                return false;
            }
            *limit = block.offset;
        }
        true
    }

    /// Adds a move if the budget allows it, and returns it otherwise. The first move may exceed the budget.
    fn admit(&mut self, planned: Planned) -> Result<(), Planned> {
        let size = planned.shown.size;
        if self.left.is_zero() || size > self.left && !self.planned.is_empty() {
            self.left = Bytes::ZERO;
            return Err(planned);
        }
        self.left = self.left.saturating_sub(size);
        self.planned.push(planned);
        Ok(())
    }
}

/// Plans to move all blocks of a slot to others; `None` if they do not all fit.
fn plan_all(
    slot: &Arc<Slot>,
    blocks: &[(Block, Bytes)],
    others: &[&Arc<Slot>],
) -> Option<Vec<Planned>> {
    let mut plan = Vec::new();
    for (block, alignment) in blocks {
        // `others` is sorted by fill. Fuller regions are tried first, so that emptier ones can be emptied.
        let planned = others.iter().rev().find_map(|other| {
            let planned = || Planned::new(slot, block, *alignment, other, None);
            slot.gains_from(other).then(planned).flatten()
        });
        let Some(planned) = planned else {
            plan.into_iter().for_each(Planned::abandon);
            return None;
        };
        plan.push(planned);
    }
    Some(plan)
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.planned.drain(..).for_each(Planned::abandon);
    }
}

impl Planned {
    fn new(
        from: &Arc<Slot>,
        block: &Block,
        alignment: Bytes,
        to: &Arc<Slot>,
        below: Option<Bytes>,
    ) -> Option<Self> {
        let room = to.reserve_room(from.domain(), block, alignment, below)?;
        // The block and its region may have been freed by now.
        let addresses = from.address(block.offset).zip(to.address(room.offset));
        let Some(((from_address, _), (to_address, to_flat))) = addresses else {
            to.give_room_back(room.key);
            return None;
        };
        let shown = Move { from: from_address, to: to_address, size: block.requested };
        let (from, to) = ((Arc::clone(from), block.key), (Arc::clone(to), room.key));
        Some(Self { shown, to_flat, from, to })
    }

    fn commit(&self) -> bool {
        let target = (self.shown.to, self.to_flat);
        let block = (self.from.1, self.shown.size);
        let moved = self.from.0.relocate(block, &self.to, target);
        if !moved {
            self.to.0.give_room_back(self.to.1);
        }
        moved
    }

    fn abandon(self) {
        self.to.0.give_room_back(self.to.1);
    }
}

impl Slot {
    pub(super) fn movable(self: &Arc<Self>) -> Vec<(Block, Bytes)> {
        self.enter().region.movable_blocks()
    }

    /// Returns the movable blocks that existed at serial number `since`, and their alignments.
    fn movable_since(self: &Arc<Self>, since: u32) -> Vec<(Block, Bytes)> {
        // Serial numbers wrap around.
        let existed = |block: &Block| since.wrapping_sub(block.key.serial()) < 1 << 31;
        self.movable().into_iter().filter(|(block, _)| existed(block)).collect()
    }

    /// Returns whether emptying this slot into another one can leave more room. An idle region takes blocks only from a
    /// larger one; otherwise two passes would move blocks there and back.
    fn gains_from(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let size = |slot: &Arc<Self>| {
            slot.with(|state| state.get().map(|region| (region.handle.size, region.is_idle())))
        };
        match (size(self), size(other)) {
            (Some((own, _)), Some((target, idle))) => !idle || target < own,
            _ => false,
        }
    }

    /// Returns the address of an offset in the region, also in the flat address space.
    fn address(self: &Arc<Self>, offset: Bytes) -> Option<(VirtualAddress, u64)> {
        let state = self.enter();
        state.region.get().map(|region| (region.address(offset), region.base + offset.get()))
    }

    /// Reserves room for a block, if the region is of the block's domain.
    fn reserve_room(
        self: &Arc<Self>,
        domain: Domain,
        block: &Block,
        alignment: Bytes,
        limit: Option<Bytes>,
    ) -> Option<Block> {
        let mut state = self.enter();
        if self.domain() != domain {
            return None;
        }
        let room = state.region.reserve_room(block, alignment, limit)?;
        self.record_placed(Action::RoomReserved, &state.region, &room, 0);
        self.leave(state);
        Some(room)
    }

    fn give_room_back(self: &Arc<Self>, room: BlockKey) {
        self.shared.journal.tick();
        let mut state = self.enter();
        let block = state.region.block(room);
        let stream = Tag::from_bits(block.tag).stream();
        self.record(Action::RoomReleased, state.region.region(), &block, stream);
        self.give_back(&mut state.region, &block);
        self.leave_freed(state);
    }

    /// Moves a block of `size` requested bytes into its reserved room, and returns whether it could still be moved. The
    /// handle finds the block at the new place as soon as it leaves the old one.
    fn relocate(
        self: &Arc<Self>,
        block: (BlockKey, Bytes),
        to: &SlotBlock,
        target: (VirtualAddress, u64),
    ) -> bool {
        self.shared.journal.tick();
        if self.number == to.0.number {
            let mut state = self.enter();
            let moving = self.move_out(&mut state, block, to, target);
            let done = moving.map(|moving| state.region.move_in(to.1, moving)).is_some();
            self.leave_freed(state);
            return done;
        }
        let (low, high) = if self.number < to.0.number { (self, &to.0) } else { (&to.0, self) };
        let (mut low, mut high) = (low.enter(), high.enter());
        let (from_state, to_state) =
            if self.number < to.0.number { (&mut low, &mut high) } else { (&mut high, &mut low) };
        let moving = self.move_out(from_state, block, to, target);
        let done = moving.map(|moving| to_state.region.move_in(to.1, moving)).is_some();
        self.publish(&mut from_state.region);
        to.0.publish(&mut to_state.region);
        let slack = &self.shared.slack;
        let above = low.region.counts.may_be_above(slack) || high.region.counts.may_be_above(slack);
        drop((low, high));
        if above {
            self.shared.settle(Places::ALL);
        }
        self.shared.after_free(true);
        done
    }

    /// Frees the block here, which moves to `to`, if it may be moved and has the size that its room was reserved for.
    fn move_out(
        self: &Arc<Self>,
        state: &mut SlotState,
        (key, size): (BlockKey, Bytes),
        to: &SlotBlock,
        target: (VirtualAddress, u64),
    ) -> Option<Moving> {
        state.region.movable(key)?;
        if state.region.block(key).requested != size {
            return None;
        }
        let (from, place) = ((self.number, key), (to.0.number, to.1));
        let forward = || self.shared.moves.insert(from, place, to.clone());
        if !self.mailbox().unless_arrived(key, forward) {
            return None;
        }
        let (block, stream, moving) = state.region.move_out(key);
        self.record_move(&state.region, (&block, &moving), stream, target);
        self.free_when_passed(&mut state.region, &block, stream);
        Some(moving)
    }

    /// Records that a block leaves its place for `target`.
    fn record_move(
        &self,
        state: &RegionState,
        (block, moving): (&Block, &Moving),
        stream: u32,
        (target, target_flat): (VirtualAddress, u64),
    ) {
        if self.shared.journal.is_kept() {
            let event = block_event(Action::Move, state.region(), block, stream);
            let tag = moving.tag_id();
            self.shared.journal.record(Event { target: Some(target), target_flat, tag, ..event });
        }
    }
}
