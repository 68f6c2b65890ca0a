//! Compaction: moving blocks so that free memory comes together.
//!
//! The allocator only plans. It takes room for every block that is to move, the owner of the data
//! copies it, and [`Compaction::commit`] makes the handles point to the new places. A plan that is
//! dropped instead gives the room back; nothing has happened then.

use super::slot::Slot;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::index::{Block, BlockKey};
use crate::policy::Kind;
use crate::sync::Arc;

/// One block that is to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where it is.
    pub from: VirtualAddress,
    /// Where it goes; the two do not overlap.
    pub to: VirtualAddress,
    /// How many bytes.
    pub size: Bytes,
}

/// A plan of moves, with room taken for all of them.
#[derive(Debug)]
#[must_use = "a plan that is dropped moves nothing"]
pub struct Compaction {
    planned: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    shown: Move,
    from: (Arc<Slot>, BlockKey),
    to: (Arc<Slot>, BlockKey),
}

impl FlexAllocator {
    /// Plans moves of blocks that are not pinned, used by several streams, or waiting for one:
    /// regions that can be emptied into others are, the least filled first; in the rest, blocks go
    /// from the high end into free ranges below.
    pub fn compact(&self) -> Compaction {
        let mut plan = Compaction { planned: Vec::new() };
        let mut slots: Vec<_> = self.slots.iter().filter(|slot| !slot.is_vacant()).collect();
        slots.sort_by_key(|slot| slot.movable().iter().map(|block| block.size).sum::<Bytes>());
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
        plan
    }
}

impl Compaction {
    /// What is to be copied, in an order in which it can be.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        self.planned.iter().map(|planned| planned.shown)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }

    /// Makes handles point to the new places and frees the old ones; the data has been copied. A
    /// block that was freed or pinned meanwhile stays as it is, and its new room is given back.
    /// Says how many blocks have moved.
    pub fn commit(mut self) -> usize {
        let planned = std::mem::take(&mut self.planned);
        planned.into_iter().filter(Planned::commit).count()
    }

    /// Plans to move all blocks of a slot to others, or nothing if they do not all fit.
    fn empty(&mut self, slot: &Arc<Slot>, others: &[&Arc<Slot>]) -> bool {
        let blocks = slot.movable();
        let all = Kind::ALL
            .iter()
            .filter_map(|&kind| slot.report(kind))
            .map(|region| region.blocks)
            .sum::<usize>();
        if blocks.is_empty() || blocks.len() < all {
            return false;
        }
        let before = self.planned.len();
        for block in &blocks {
            // Fuller regions first, which `others` is sorted by, so that the emptier can be emptied.
            let planned = others.iter().rev().find_map(|other| {
                let fits = Kind::ALL
                    .iter()
                    .all(|&kind| slot.view(kind).is_some() == other.view(kind).is_some());
                fits.then(|| Planned::new(slot, block, other, None)).flatten()
            });
            let Some(planned) = planned else {
                self.planned.drain(before..).for_each(Planned::abandon);
                return false;
            };
            self.planned.push(planned);
        }
        true
    }

    /// Plans to move blocks from the high end of a slot into ranges below them.
    fn close_up(&mut self, slot: &Arc<Slot>) {
        for block in slot.movable().iter().rev() {
            // Room that was taken for another block of this plan is not to be moved itself.
            let target = self
                .planned
                .iter()
                .any(|planned| planned.to.0.number == slot.number && planned.to.1 == block.key);
            if !target {
                self.planned.extend(Planned::new(slot, block, slot, Some(block.offset)));
            }
        }
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.planned.drain(..).for_each(Planned::abandon);
    }
}

impl Planned {
    fn new(from: &Arc<Slot>, block: &Block, to: &Arc<Slot>, below: Option<Bytes>) -> Option<Self> {
        let room = to.reserve_room(block, below)?;
        let shown = Move {
            from: from.address(block.offset)?,
            to: to.address(room.offset)?,
            size: block.requested,
        };
        Some(Self { shown, from: (Arc::clone(from), block.key), to: (Arc::clone(to), room.key) })
    }

    fn commit(&self) -> bool {
        let (slot, key) = &self.from;
        // Only a block that is still there and free to move is forwarded; `movable` says which are.
        let still = slot.movable().iter().any(|block| block.key == *key);
        if still {
            slot.shared.forward((slot, *key), self.to.clone());
            slot.free(*key).expect("the block was seen live just now");
        } else {
            self.give_room_back();
        }
        still
    }

    fn abandon(self) {
        self.give_room_back();
    }

    fn give_room_back(&self) {
        self.to.0.free(self.to.1).expect("the room belongs to the plan");
    }
}
