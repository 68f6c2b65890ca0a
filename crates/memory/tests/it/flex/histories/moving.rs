//! Compaction in a history: plans that are carried out or abandoned, at once or later.

use std::collections::BTreeMap;

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{Compaction, ResizeError, VirtualAddress};

use super::block::Block;
use super::ground::{Place, Uses};
use super::history::History;

/// A plan of the allocator, and the room that it has reserved.
pub(super) struct Plan {
    compaction: Compaction,
    rooms: Vec<Room>,
}

/// Room that is reserved for a block.
struct Room {
    /// Number of the block; `None` for one that was freed and whose free another thread has yet to carry out.
    block: Option<u64>,
    from: Place,
    to: Place,
    /// Number of bytes to copy.
    size: u64,
    uses: Uses,
}

fn place(address: VirtualAddress) -> Place {
    (address.region_id, address.offset.get())
}

impl History {
    /// Makes a plan, or carries out or abandons the one that was made before.
    pub(super) fn compact(&mut self) {
        match self.plan.take() {
            None => {
                self.note("plan", Self::make_plan);
                if self.random.bool() {
                    self.compact();
                }
            }
            Some(plan) if self.random.u32(..4) > 0 => {
                self.note("commit", |history| history.commit(plan));
            }
            Some(plan) => self.note("abandon", |history| history.abandon(plan)),
        }
    }

    fn make_plan(&mut self) {
        let compaction = self.draw_plan();
        let places = self.blocks.iter().enumerate().map(|(index, block)| (block.place, index));
        let places: BTreeMap<_, _> = places.collect();
        let mut rooms = Vec::new();
        for planned in compaction.moves() {
            let (from, to) = (place(planned.from), place(planned.to));
            let Some(&index) = places.get(&from) else {
                rooms.push(self.room_of_freed(from, to, planned.size.get()));
                continue;
            };
            let block = &self.blocks[index];
            assert!(block.is_movable(), "block {} cannot move", block.id);
            assert_eq!(planned.size, block.request.size);
            assert!(to.1.is_multiple_of(block.request.alignment.get()), "{planned:?}");
            let domain = self.domain(&block.request);
            let mut ground = self.device.ground();
            ground.is_of(to.0, domain);
            let uses = ground.take(to, to.1 + block.size, None, &self.device.streams.state());
            let (id, size) = (block.id, planned.size.get());
            rooms.push(Room { block: Some(id), from, to, size, uses });
        }
        self.plan = Some(Plan { compaction, rooms });
    }

    /// Plans moves of all blocks, or of some bytes.
    fn draw_plan(&mut self) -> Compaction {
        if self.random.bool() {
            return self.allocator.compact();
        }
        let budget = Bytes::new(self.random.u64(1..4 << 20));
        let step = self.allocator.compact_step(budget);
        assert!(step.bytes() <= budget || step.moves().count() == 1, "{} moves", step.bytes());
        self.seen.steps += u64::from(!step.is_empty());
        step
    }

    /// Resizes a block in place.
    pub(super) fn resize(&mut self) {
        let Some(index) = self.pick() else { return };
        let block = &self.blocks[index];
        let most = block.request.size.get() * 2 + 1000;
        let size = 1 + self.random.u64(..most);
        self.note(format!("resize {} to {size}", block.id), |history| {
            history.resize_at(index, size);
        });
    }

    fn resize_at(&mut self, index: usize, size: u64) {
        let granule = self.allocator.config().alignment.get();
        let rounded = size.next_multiple_of(granule);
        let Block { id, place, size: old, .. } = self.blocks[index];
        let rests = self.blocks[index].paused;
        let shrinks = rounded < old && !self.blocks[index].is_held() && !rests;
        if shrinks && self.blocks[index].is_named() {
            let uses = self.blocks[index].uses.clone();
            self.device.ground().shrink(place, place.1 + rounded, uses);
        }
        match self.blocks[index].resize(size, &self.allocator) {
            None => return,
            Some(Ok(())) => assert!(rounded >= old || shrinks, "block {id} is pinned"),
            Some(Err(ResizeError::NoRoom { .. } | ResizeError::NoMemory { .. })) => {
                assert!(rounded > old, "block {id} has room for {size} of {old} bytes");
                return;
            }
            Some(Err(ResizeError::Pinned { .. })) => {
                assert!(rounded < old && self.blocks[index].is_held());
                return;
            }
            Some(Err(ResizeError::Paused { .. })) => {
                assert!(rests, "block {id} is not paused");
                return;
            }
            Some(Err(ResizeError::Budget { tag, .. })) => {
                assert!(self.is_over_budget(tag, rounded - old), "block {id}, {tag}");
                return;
            }
            Some(Err(error)) => panic!("block {id}: {error}"),
        }
        self.resized(index, size, rounded);
    }

    /// Enters the new size of a block into the ledger, and checks its memory.
    fn resized(&mut self, index: usize, size: u64, rounded: u64) {
        let block = &mut self.blocks[index];
        let (place, end, stream) = (block.place, block.place.1 + rounded, block.request.stream);
        let (mut ground, streams) = (self.device.ground(), self.device.streams.state());
        block.uses.merge(&ground.grow(place, end, stream, &streams));
        drop((ground, streams));
        assert!(self.device.card().is_backed(place.0, place.1, end), "{place:?} to {end:#x}");
        let (old, tag) = (block.size, block.request.tag);
        (block.size, block.request.size) = (rounded, Bytes::new(size));
        self.count_block(old, false);
        self.count_block(rounded, true);
        if rounded > old {
            self.charge_bytes(tag, (0, rounded - old), true);
        } else {
            self.charge_bytes(tag, (0, old - rounded), false);
        }
        self.seen.resized += 1;
        self.blocks[index].is_as_known(&self.allocator);
    }

    /// Returns the room for a block that was freed in another thread's region, and is live until that thread sees it.
    fn room_of_freed(&self, from: Place, to: Place, size: u64) -> Room {
        let config = self.allocator.config();
        assert!(config.region.thread_home, "{from:?} is not live, but moves to {to:?}");
        let end = (to.1 + size).next_multiple_of(config.alignment.get());
        let uses = self.device.ground().take(to, end, None, &self.device.streams.state());
        Room { block: None, from, to, size, uses }
    }

    /// Copies the blocks on their streams and carries out the plan. Blocks that were freed, pinned
    /// or resized meanwhile stay.
    fn commit(&mut self, Plan { compaction, rooms }: Plan) {
        let ids = self.blocks.iter().enumerate().map(|(index, block)| (block.id, index));
        let ids: BTreeMap<_, _> = ids.collect();
        let (mut moved, planned) = (Vec::new(), rooms.len());
        for mut room in rooms {
            let index = room.block.and_then(|block| ids.get(&block).copied());
            let as_planned =
                |block: &Block| block.is_movable() && block.request.size.get() == room.size;
            let Some(index) = index.filter(|&index| as_planned(&self.blocks[index])) else {
                self.device.ground().let_go(room.to, room.uses);
                continue;
            };
            assert_eq!(self.blocks[index].place, room.from);
            let stream = self.blocks[index].request.stream;
            let copy = self.submit(stream);
            let block = &mut self.blocks[index];
            let mut uses = std::mem::take(&mut block.uses);
            if let Some(copy) = copy {
                uses.add(stream, copy);
                room.uses.add(stream, copy);
            }
            self.device.ground().let_go(room.from, uses);
            (block.place, block.uses) = (room.to, room.uses);
            moved.push(index);
        }
        let most = if self.allocator.config().region.thread_home { planned } else { moved.len() };
        let committed = compaction.commit();
        assert!((moved.len()..=most).contains(&committed), "{committed} of {moved:?} and {most}");
        moved.iter().for_each(|&index| self.blocks[index].is_as_known(&self.allocator));
        self.seen.moved += moved.len() as u64;
    }

    pub(super) fn abandon(&mut self, Plan { compaction, rooms }: Plan) {
        for room in rooms {
            self.device.ground().let_go(room.to, room.uses);
        }
        drop(compaction);
        self.seen.abandoned += 1;
    }
}
