//! A live block of a history.

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{
    Allocation, AllocationToken, FlexAllocator, Pin, Program, ResizeError, VirtualAddress,
};
use cubeyard_memory::policy::Request;

use super::ground::{Place, Uses};

/// Owner of a block.
pub(super) enum Owner {
    Handle(Allocation),
    Token(AllocationToken),
    /// A leaked block, which is known by its address.
    Address(VirtualAddress),
    Program(Program),
    /// The block was freed while it was pinned.
    Nobody,
}

impl Owner {
    /// Frees the block.
    pub(super) fn free(self, allocator: &FlexAllocator) {
        match self {
            Self::Handle(block) => drop(block),
            Self::Program(program) => drop(program),
            Self::Token(token) => {
                allocator.free_token(token).expect("the block is live");
                allocator.free_token(token).expect_err("the block is freed");
            }
            Self::Address(address) => allocator.deallocate(address).expect("the block is live"),
            Self::Nobody => {}
        }
    }

    /// Returns the handle of the block, if it has one.
    pub(super) fn handle(&self) -> Option<&Allocation> {
        match self {
            Self::Handle(block) => Some(block),
            Self::Program(program) => Some(program.memory()),
            _ => None,
        }
    }
}

/// A live block: what the allocator has said about it, and its use since.
pub(super) struct Block {
    /// Number of the block in the history.
    pub(super) id: u64,
    pub(super) owner: Owner,
    pub(super) place: Place,
    pub(super) size: u64,
    pub(super) request: Request,
    pub(super) uses: Uses,
    /// Whether streams other than its own use the block.
    pub(super) shared: bool,
    pub(super) pins: Vec<Pin>,
    /// Number of launches that hold the block.
    pub(super) launches: usize,
    pub(super) paused: bool,
}

impl Block {
    pub(super) fn new(id: u64, owner: Owner, address: VirtualAddress, request: Request) -> Self {
        let place = (address.region_id, address.offset.get());
        let (uses, pins) = (Uses::default(), Vec::new());
        let (shared, paused) = (false, false);
        Self { id, owner, place, size: 0, request, uses, shared, pins, launches: 0, paused }
    }

    pub(super) fn end(&self) -> u64 {
        self.place.1 + self.size
    }

    pub(super) fn is_held(&self) -> bool {
        self.launches > 0 || !self.pins.is_empty()
    }

    /// Returns whether the block has a handle or a token.
    pub(super) fn is_named(&self) -> bool {
        matches!(self.owner, Owner::Handle(_) | Owner::Token(_) | Owner::Program(_))
    }

    /// Returns whether compaction may move the block.
    pub(super) fn is_movable(&self) -> bool {
        self.is_named() && !self.shared && !self.paused && !self.is_held()
    }

    /// Records a further stream. Returns whether the owner could.
    pub(super) fn record_stream(&mut self, stream: u32, allocator: &FlexAllocator) -> bool {
        match &self.owner {
            Owner::Token(token) => {
                allocator.record_stream_token(*token, stream).expect("the block is live");
            }
            owner => match owner.handle() {
                Some(block) => block.record_stream(stream),
                None => return false,
            },
        }
        self.shared |= stream != self.request.stream;
        true
    }

    /// Pins the block, if its owner can.
    pub(super) fn pin(&mut self, allocator: &FlexAllocator) {
        let pin = match &self.owner {
            Owner::Token(token) => Some(allocator.pin_token(*token).expect("the block is live")),
            owner => owner.handle().map(Allocation::pin),
        };
        self.pins.extend(pin);
    }

    /// Resizes the block, if its owner can.
    pub(super) fn resize(
        &self,
        size: u64,
        allocator: &FlexAllocator,
    ) -> Option<Result<(), ResizeError>> {
        let size = Bytes::new(size);
        match &self.owner {
            Owner::Token(token) => Some(allocator.resize_token(*token, size)),
            owner => owner.handle().map(|block| block.resize(size)),
        }
    }

    /// Checks that the allocator says of the block what the ledger has.
    pub(super) fn is_as_known(&self, allocator: &FlexAllocator) {
        let found = match &self.owner {
            Owner::Token(token) => {
                let block = allocator.block_of(*token).expect("the block is live");
                (block.address, block.size, block.requested, block.kind)
            }
            owner => {
                let Some(block) = owner.handle() else { return };
                (block.address(), block.size(), block.requested(), block.kind())
            }
        };
        let (region_id, offset) = (self.place.0, Bytes::new(self.place.1));
        let address = VirtualAddress { region_id, offset };
        let Request { size, kind, .. } = self.request;
        assert_eq!(found, (address, Bytes::new(self.size), size, kind), "block {}", self.id);
        if let Some(block) = self.owner.handle() {
            assert_eq!((block.pool(), block.tag()), (self.request.pool, self.request.tag));
            assert_eq!(block.is_paused(), self.paused, "block {}", self.id);
        }
        for pin in &self.pins {
            assert_eq!(pin.address(), address, "a pinned block stays");
        }
    }
}
