//! Operations of a history on blocks.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{
    AllocateError, AllocationToken, BlockState, FreeError, LaunchError, OutOfMemory, VirtualAddress,
};
use cubeyard_memory::policy::{Kind, Request};

use super::block::{Block, Owner};
use super::history::{History, Running};

impl History {
    pub(super) fn allocate(&mut self) {
        let request = self.request();
        self.note(format!("{request:?}"), |history| history.allocate_for(request));
    }

    /// Draws a request: mostly small, some around the limit of the pools, few large; some aligned.
    fn request(&mut self) -> Request {
        let random = &mut self.random;
        let bytes = match random.u32(..16) {
            0..6 => 1 + random.u64(..2000),
            6..13 => {
                let bits = random.u32(1..20);
                1 + random.u64(..1 << bits)
            }
            13..15 => random.u64((1 << 19)..(3 << 19)),
            _ => random.u64(1..9 << 20),
        };
        let alignment = if random.u32(..8) == 0 { 1 << random.u32(..17) } else { 1 };
        let kind = Kind::ALL[random.usize(..12).saturating_sub(9)];
        let (alignment, site) = (Bytes::new(alignment), random.u32(..5));
        let stream = self.stream();
        let request = Request::new(Bytes::new(bytes));
        self.label(Request { alignment, kind, stream, site, ..request })
    }

    fn allocate_for(&mut self, request: Request) {
        let granule = self.allocator.config().alignment.get();
        if !self.is_over_budget(request.tag, request.size.get().next_multiple_of(granule)) {
            self.device.ground().see(request.stream);
        }
        match self.allocator.allocate_for(&request) {
            Ok(block) => {
                let (id, address) = (self.new_id(), block.address());
                self.enter(Block::new(id, Owner::Handle(block), address, request));
                self.seen.placed += 1;
            }
            Err(AllocateError::OutOfMemory(report)) => self.refused(&request, &report),
            Err(AllocateError::Budget(exceeded)) => self.over_budget(&request, &exceeded),
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    /// Checks the report of a refused request: no free range with memory could hold it.
    fn refused(&mut self, request: &Request, report: &OutOfMemory) {
        self.seen.refused += 1;
        assert_eq!(report.requested, request.size);
        assert!(report.largest <= report.free, "{report}");
        let domain = self.domain(request);
        let table = self.allocator.segment_table();
        let snapshot = self.allocator.snapshot();
        let ground = self.device.ground();
        for segment in &snapshot.segments {
            let entries = table.entries().iter().flatten();
            let mut below = entries.filter(|entry| entry.base <= segment.address);
            let entry = below.by_ref().max_by_key(|entry| entry.base).expect("it has an entry");
            if !ground.is_open(entry.region_id, domain) {
                continue;
            }
            let mut start = segment.address;
            for part in &segment.blocks {
                let end = part.address + part.size.get();
                if part.state != BlockState::Inactive {
                    start = end;
                }
                let offset = Bytes::new(start - entry.base);
                let alignment = request.alignment.max(self.allocator.config().alignment);
                let at = offset.align_up(alignment).expect("it is in a region");
                let room = Bytes::new(end - entry.base).get().saturating_sub(at.get());
                assert!(room < report.rounded.get(), "{room} bytes at {at} are free: {report}");
            }
        }
        drop(ground);
        self.shrink_target();
    }

    pub(super) fn free(&mut self) {
        let Some(index) = self.pick() else { return };
        self.note(format!("free {}", self.blocks[index].id), |history| history.free_at(index));
    }

    fn free_at(&mut self, index: usize) {
        let block = &mut self.blocks[index];
        if matches!(block.owner, Owner::Nobody) {
            return;
        }
        self.seen.freed += 1;
        if block.is_held() {
            self.seen.orphans += 1;
            std::mem::replace(&mut block.owner, Owner::Nobody).free(&self.allocator);
        } else {
            self.remove(index).owner.free(&self.allocator);
        }
    }

    /// Uses a block on its own stream or on another one.
    pub(super) fn work(&mut self) {
        let Some(index) = self.pick() else { return };
        let stream = self.stream();
        let block = &mut self.blocks[index];
        if block.paused {
            return;
        }
        let own = block.request.stream;
        let stream = if self.random.u32(..4) > 0 { own } else { stream };
        if stream != own && !block.record_stream(stream, &self.allocator) {
            return;
        }
        let id = block.id;
        let Some(work) = self.submit(stream) else { return };
        self.note(format!("work {work} of stream {stream} on {id}"), |history| {
            history.blocks[index].uses.add(stream, work);
        });
        self.seen.shared += u64::from(stream != own);
    }

    pub(super) fn advance(&mut self) {
        let (stream, by) = (self.stream(), self.random.u64(..40));
        self.note(format!("advance stream {stream} by {by}"), |history| {
            history.device.streams.advance(stream, by);
        });
    }

    pub(super) fn pin(&mut self) {
        let Some(index) = self.pick() else { return };
        self.note(format!("pin {}", self.blocks[index].id), |history| {
            history.blocks[index].pin(&history.allocator);
        });
    }

    pub(super) fn unpin(&mut self) {
        let pinned = |block: &Block| !block.pins.is_empty();
        let Some(from) = self.pick() else { return };
        let mut others = (from..self.blocks.len()).chain(0..from);
        let Some(index) = others.find(|&index| pinned(&self.blocks[index])) else { return };
        self.note(format!("unpin {}", self.blocks[index].id), |history| history.unpin_at(index));
    }

    fn unpin_at(&mut self, index: usize) {
        let pin = self.blocks[index].pins.pop();
        self.settle(index);
        drop(pin);
    }

    /// Removes a block from the ledger if nobody holds it any more.
    fn settle(&mut self, index: usize) {
        let block = &self.blocks[index];
        if matches!(block.owner, Owner::Nobody) && !block.is_held() {
            self.remove(index);
        }
    }

    /// Makes a handle a token or a leaked address, or a token a handle.
    pub(super) fn change_owner(&mut self) {
        let Some(index) = self.pick() else { return };
        let leak = self.random.u32(..3) == 0;
        let block = &mut self.blocks[index];
        block.owner = match std::mem::replace(&mut block.owner, Owner::Nobody) {
            Owner::Handle(block) if leak => Owner::Address(block.leak()),
            Owner::Handle(block) => {
                let (place, key) = block.into_token().to_parts();
                Owner::Token(AllocationToken::from_parts(place, key))
            }
            Owner::Token(token) => {
                Owner::Handle(self.allocator.adopt(token).expect("the block is live"))
            }
            other => other,
        };
        self.note(format!("change the owner of {}", self.blocks[index].id), |history| {
            history.blocks[index].is_as_known(&history.allocator);
        });
    }

    /// Starts a launch of a program with up to three operands.
    pub(super) fn launch(&mut self) {
        let Some(index) = self.program() else { return };
        let mut held = vec![index];
        let Owner::Program(program) = &self.blocks[index].owner else { return };
        let named =
            |index: &usize| !matches!(self.blocks[*index].owner, Owner::Address(_) | Owner::Nobody);
        let count = self.blocks.len();
        held.extend((0..program.parameters()).map(|_| self.random.usize(..count)));
        if !held.iter().all(named) {
            return;
        }
        let arguments = held[1..].iter().map(|&index| match &self.blocks[index].owner {
            Owner::Token(token) => (*token).into(),
            owner => owner.handle().expect("it has a handle").into(),
        });
        let arguments: Vec<cubeyard_memory::flex::Argument<'_>> = arguments.collect();
        if held.iter().all(|&index| !self.blocks[index].paused) {
            self.device.ground().see(0);
        }
        let launch = match self.allocator.launch(program, arguments) {
            Ok(launch) => launch,
            Err(LaunchError::Corrections(AllocateError::OutOfMemory(_))) => {
                self.seen.refused += 1;
                return;
            }
            Err(LaunchError::PausedOperand { operand, .. }) => {
                let first = held[1..].iter().position(|&index| self.blocks[index].paused);
                assert_eq!(first, Some(operand), "the first paused operand is named");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(held.iter().all(|&index| !self.blocks[index].paused), "a paused operand");
        self.seen.launches += 1;
        self.note("launch", |history| history.launched(launch, &held));
    }

    fn launched(&mut self, launch: cubeyard_memory::flex::Launch, held: &[usize]) {
        for (&index, operand) in held[1..].iter().zip(launch.operands()) {
            let (region, start) = self.blocks[index].place;
            let (_, entry) = launch.segment_table().get(region).expect("it is in the table");
            assert_eq!(operand.flat, entry.base + start, "block {}", self.blocks[index].id);
        }
        held.iter().for_each(|&index| self.blocks[index].launches += 1);
        let mut blocks: Vec<_> = held.iter().map(|&index| self.blocks[index].id).collect();
        let (address, buffer) = launch.corrections();
        let size = buffer.size().max(Bytes::new(16));
        let request = Request { kind: Kind::Program, ..Request::new(size) };
        let id = self.new_id();
        let mut corrections = Block::new(id, Owner::Nobody, address, request);
        corrections.launches = 1;
        self.enter(corrections);
        blocks.push(id);
        let stream = self.stream();
        let work = self.submit(stream).map(|work| (stream, work));
        self.running.push(Running { launch, blocks, work });
    }

    /// Returns the index of a program, which is loaded if there is none.
    fn program(&mut self) -> Option<usize> {
        let programs = |block: &Block| matches!(block.owner, Owner::Program(_));
        if let Some(index) = self.blocks.iter().position(programs) {
            return (!self.blocks[index].paused).then_some(index);
        }
        let (binary, parameters) = (1 + self.random.u64(..50_000), self.random.usize(..4));
        self.device.ground().see(0);
        let program = self.allocator.load_program(Bytes::new(binary), parameters).ok()?;
        let request = Request { kind: Kind::Program, ..Request::new(Bytes::new(binary)) };
        let (id, address) = (self.new_id(), program.memory().address());
        self.enter(Block::new(id, Owner::Program(program), address, request));
        Some(self.blocks.len() - 1)
    }

    /// Ends a launch, whose work is done.
    pub(super) fn finish_launch(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let index = self.random.usize(..self.running.len());
        let Running { launch, blocks, work } = self.running.swap_remove(index);
        if let Some((stream, work)) = work {
            self.device.streams.finish(stream, work);
        }
        self.note("finish a launch", |history| {
            for id in blocks {
                let known = history.blocks.iter().position(|block| block.id == id);
                let index = known.expect("a launch keeps its blocks");
                history.blocks[index].launches -= 1;
                history.settle(index);
            }
            drop(launch);
        });
    }

    /// Makes calls that are refused and change nothing.
    pub(super) fn refuse_nonsense(&mut self) {
        let allocator = &self.allocator;
        let zero = allocator.allocate(Bytes::ZERO);
        assert_eq!(zero.err(), Some(AllocateError::ZeroBytes));
        let (place, key) = (self.random.u64(..), self.random.u64(..));
        let token = AllocationToken::from_parts(place, key);
        let refused = allocator.free_token(token);
        assert!(matches!(refused, Err(FreeError::Stale | FreeError::Foreign)), "{refused:?}");
        let Some(index) = self.pick() else { return };
        let block = &self.blocks[index];
        let address =
            VirtualAddress { region_id: block.place.0, offset: Bytes::new(block.place.1) };
        if !matches!(block.owner, Owner::Address(_)) {
            // A token's block may be freed by its address as well.
            if !matches!(block.owner, Owner::Token(_) | Owner::Nobody) {
                self.allocator.deallocate(address).expect_err("a handle owns the block");
            }
        }
        let inside = VirtualAddress { offset: address.offset + Bytes::new(64), ..address };
        self.allocator.deallocate(inside).expect_err("no block starts there");
    }
}
