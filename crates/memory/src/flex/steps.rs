//! Compaction as one pass over all blocks, planned at once or in steps.

use super::FlexAllocator;
use super::compaction::{Compaction, Emptied};
use super::pass::Pass;
use super::slots::Slot;
use crate::Bytes;
use crate::sync::{Arc, lock};

impl FlexAllocator {
    /// Plans moves of blocks. Blocks that are pinned, used by several streams or waiting for a stream stay. Regions
    /// that can be emptied into others are emptied, the least filled first. In the remaining regions, blocks move from
    /// the high end into lower free ranges. An idle region takes blocks only from larger regions.
    pub fn compact(&self) -> Compaction {
        self.plan_moves(&mut Pass::new(&self.slots), Bytes::MAX)
    }

    /// Plans the next moves of a pass over all blocks, at most `budget` bytes to copy. A larger block that is next moves
    /// alone. A budget of zero plans nothing.
    ///
    /// Blocks may be allocated, freed and pinned between the steps. If none are, the steps of a pass together do the
    /// same as one [`compact`](Self::compact). The pass ends with an empty plan, and the next call starts another one.
    /// Before a region is emptied in steps, each step makes sure that all its blocks still fit elsewhere; if not, the
    /// rest stays. Peaks of active bytes include the room that this takes for a moment.
    ///
    /// ```
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// # use std::sync::Arc;
    /// # let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    /// # let mut blocks: Vec<_> = (0..8).map(|_| allocator.allocate(Bytes::mib(3)).unwrap()).collect();
    /// # blocks.drain(..4);
    /// loop {
    ///     let step = allocator.compact_step(Bytes::mib(8));
    ///     if step.is_empty() {
    ///         break;
    ///     }
    ///     assert_eq!(step.bytes(), Bytes::mib(6), "three blocks are more than 8 MiB");
    ///     // Copy the data of `step.moves()`.
    ///     step.commit();
    /// }
    /// # assert_eq!(allocator.regions()[0].largest, Bytes::gib(12) - Bytes::mib(12));
    /// ```
    pub fn compact_step(&self, budget: Bytes) -> Compaction {
        if budget.is_zero() {
            return Compaction::new(budget);
        }
        let held = lock(&self.shared.pass).take();
        let mut pass = held.unwrap_or_else(|| Pass::new(&self.slots));
        let plan = self.plan_moves(&mut pass, budget);
        if !plan.is_empty() {
            *lock(&self.shared.pass) = Some(pass);
        }
        plan
    }

    fn plan_moves(&self, pass: &mut Pass, budget: Bytes) -> Compaction {
        self.shared.journal.tick();
        let mut plan = Compaction::new(budget);
        pass.empty(&self.slots, &mut plan);
        if pass.tried == pass.slots.len() {
            pass.close_up(&self.slots, &mut plan);
        }
        self.shared.deliver();
        plan
    }
}

impl Pass {
    fn new(slots: &[Arc<Slot>]) -> Self {
        let mut slots: Vec<_> = slots.iter().filter(|slot| !slot.is_vacant()).collect();
        let filled =
            |slot: &&Arc<Slot>| slot.movable().iter().map(|(block, _)| block.size).sum::<Bytes>();
        slots.sort_by_cached_key(filled);
        let serial = |slot: &Arc<Slot>| slot.with(|region| region.serial());
        let slots = slots.into_iter().map(|slot| (slot.number, serial(slot))).collect();
        Self { slots, emptied: Vec::new(), tried: 0, closed: 0, limit: Bytes::MAX }
    }

    /// Plans to empty the slots that can be emptied, as far as the budget reaches.
    fn empty(&mut self, slots: &[Arc<Slot>], plan: &mut Compaction) {
        while let Some(&(number, since)) = self.slots.get(self.tried) {
            if plan.is_full() {
                return;
            }
            let others = self.slots.iter().map(|&(other, _)| other);
            let others = others.filter(|other| *other != number && !self.emptied.contains(other));
            let others: Vec<_> = others.map(|other| &slots[other]).collect();
            let emptied = plan.empty(&slots[number], since, &others);
            match emptied {
                Emptied::Nothing => {}
                Emptied::Refused => self.emptied.retain(|other| *other != number),
                Emptied::Part | Emptied::Whole if self.emptied.contains(&number) => {}
                Emptied::Part | Emptied::Whole => self.emptied.push(number),
            }
            if emptied == Emptied::Part {
                return;
            }
            self.tried += 1;
        }
    }

    /// Plans to close up the other slots, as far as the budget reaches.
    fn close_up(&mut self, slots: &[Arc<Slot>], plan: &mut Compaction) {
        while let Some(&(number, since)) = self.slots.get(self.closed) {
            let emptied = self.emptied.contains(&number);
            if !emptied && !plan.close_up(&slots[number], since, &mut self.limit) {
                return;
            }
            (self.closed, self.limit) = (self.closed + 1, Bytes::MAX);
        }
    }
}
