//! Compaction: moving blocks so that free memory becomes contiguous.
//!
//! The allocator only plans. It reserves room for every block that is to move, the owner of the data copies the blocks,
//! and [`Compaction::commit`] redirects the handles to the new places. Dropping a plan without a commit frees the
//! reserved room and changes nothing.

use super::event::Event;
use super::history::Action;
use super::region::{Moving, RegionState};
use super::slots::{Slot, SlotBlock, SlotState, block_event};
use super::tag::Tag;
use super::{FlexAllocator, VirtualAddress};
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
}

#[derive(Debug)]
struct Planned {
    shown: Move,
    /// New address in the flat address space.
    to_flat: u64,
    from: SlotBlock,
    to: SlotBlock,
}

impl FlexAllocator {
    /// Plans moves of blocks. Blocks that are pinned, used by several streams or waiting for a stream stay. Regions
    /// that can be emptied into others are emptied, the least filled first. In the remaining regions, blocks move from
    /// the high end into lower free ranges.
    pub fn compact(&self) -> Compaction {
        self.shared.journal.tick();
        let mut plan = Compaction { planned: Vec::new() };
        let mut slots: Vec<_> = self.slots.iter().filter(|slot| !slot.is_vacant()).collect();
        let filled =
            |slot: &&Arc<Slot>| slot.movable().iter().map(|(block, _)| block.size).sum::<Bytes>();
        slots.sort_by_cached_key(filled);
        let mut emptied = Vec::new();
        for slot in &slots {
            let others = slots
                .iter()
                .filter(|other| other.number != slot.number && !emptied.contains(&other.number));
            if plan.empty(slot, &others.copied().collect::<Vec<_>>()) {
                emptied.push(slot.number);
            }
        }
        for slot in slots.iter().filter(|slot| !emptied.contains(&slot.number)) {
            plan.close_up(slot);
        }
        self.shared.deliver();
        plan
    }
}

impl Compaction {
    /// Returns the blocks to copy, in an order in which no copy overwrites a block that is still to be copied.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        self.planned.iter().map(|planned| planned.shown)
    }

    /// Returns whether no block is to move.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Redirects handles to the new places and frees the old ones; the data must have been copied. A block that was
    /// freed or pinned in the meantime stays in place, and its reserved room is freed. Returns the number of blocks
    /// that moved.
    pub fn commit(mut self) -> usize {
        let planned = std::mem::take(&mut self.planned);
        planned.into_iter().filter(Planned::commit).count()
    }

    /// Plans to move all blocks of a slot to others; plans nothing if they do not all fit.
    fn empty(&mut self, slot: &Arc<Slot>, others: &[&Arc<Slot>]) -> bool {
        let blocks = slot.movable();
        let all = slot.report().map_or(0, |region| region.blocks);
        if blocks.is_empty() || blocks.len() < all {
            return false;
        }
        let before = self.planned.len();
        for (block, alignment) in &blocks {
            // `others` is sorted by fill. Fuller regions are tried first, so that emptier ones can be emptied.
            let planned = others.iter().rev().find_map(|other| {
                let planned = || Planned::new(slot, block, *alignment, other, None);
                slot.is_like(other).then(planned).flatten()
            });
            let Some(planned) = planned else {
                self.planned.drain(before..).for_each(Planned::abandon);
                return false;
            };
            self.planned.push(planned);
        }
        true
    }

    fn close_up(&mut self, slot: &Arc<Slot>) {
        for (block, alignment) in slot.movable().iter().rev() {
            let below = Some(block.offset);
            self.planned.extend(Planned::new(slot, block, *alignment, slot, below));
        }
    }
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
        let room = to.reserve_room(block, alignment, below)?;
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
        let moved = self.from.0.relocate(self.from.1, &self.to, target);
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

    /// Returns the address of an offset in the region, also in the flat address space.
    fn address(self: &Arc<Self>, offset: Bytes) -> Option<(VirtualAddress, u64)> {
        let state = self.enter();
        state.region.get().map(|region| (region.address(offset), region.base + offset.get()))
    }

    fn reserve_room(
        self: &Arc<Self>,
        block: &Block,
        alignment: Bytes,
        limit: Option<Bytes>,
    ) -> Option<Block> {
        let mut state = self.enter();
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

    /// Moves a block into its reserved room, and returns whether it could still be moved. The handle finds the block at
    /// the new place as soon as it leaves the old one.
    fn relocate(
        self: &Arc<Self>,
        key: BlockKey,
        to: &SlotBlock,
        target: (VirtualAddress, u64),
    ) -> bool {
        self.shared.journal.tick();
        if self.number == to.0.number {
            let mut state = self.enter();
            let moving = self.move_out(&mut state, key, to, target);
            let done = moving.map(|moving| state.region.move_in(to.1, moving)).is_some();
            self.leave_freed(state);
            return done;
        }
        let (low, high) = if self.number < to.0.number { (self, &to.0) } else { (&to.0, self) };
        let (mut low, mut high) = (low.enter(), high.enter());
        let (from_state, to_state) =
            if self.number < to.0.number { (&mut low, &mut high) } else { (&mut high, &mut low) };
        let moving = self.move_out(from_state, key, to, target);
        let done = moving.map(|moving| to_state.region.move_in(to.1, moving)).is_some();
        self.publish(&from_state.region);
        let above = low.region.counts.is_above() || high.region.counts.is_above();
        drop((low, high));
        if above {
            self.shared.settle(Places::ALL);
        }
        self.shared.after_free(true);
        done
    }

    /// Frees the block here, which moves to `to`, if it may be moved.
    fn move_out(
        self: &Arc<Self>,
        state: &mut SlotState,
        key: BlockKey,
        to: &SlotBlock,
        target: (VirtualAddress, u64),
    ) -> Option<Moving> {
        state.region.movable(key)?;
        let (from, place) = ((self.number, key), (to.0.number, to.1));
        let forward = || self.shared.moves.insert(from, place, to.clone());
        if !self.mailbox().unless_arrived(key, forward) {
            return None;
        }
        let (block, stream, moving) = state.region.move_out(key);
        self.record_move(&state.region, &block, stream, target);
        self.free_when_passed(&mut state.region, &block, stream);
        Some(moving)
    }

    /// Records that a block leaves its place for `target`.
    fn record_move(
        &self,
        state: &RegionState,
        block: &Block,
        stream: u32,
        (target, target_flat): (VirtualAddress, u64),
    ) {
        if self.shared.journal.is_kept() {
            let event = block_event(Action::Move, state.region(), block, stream);
            self.shared.journal.record(Event { target: Some(target), target_flat, ..event });
        }
    }
}
