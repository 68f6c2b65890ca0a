//! The blocks of a space, live and free, as a chain in address order stored in one array.

#![expect(
    clippy::cast_possible_truncation,
    reason = "block numbers are below 2^31, and a size is cut into its halves"
)]

/// Number of a block in its space; reused once the block is gone.
pub(crate) type Id = u32;

/// The null id. It also stands for the end of the space, a live block of size zero. This makes the chain a ring: every
/// block has a neighbour on both sides.
pub(crate) const NONE: Id = 0;
/// Flag in `prev`, set while the block is free or its id is unused.
const FREE: u32 = 1 << 31;

/// One block in 32 bytes. Three fields have different meanings in live and free blocks. The size of a live block is the
/// distance to the next block, and a free block has no owner data. A *loner* is a live block outside any chain: its
/// size follows from the requested size, and the link field stores the page of the address tree that it came from.
/// Aligned so that each node lies in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Node {
    start: u64,
    /// Free: size in units. Live: number of bytes requested.
    amount: u64,
    prev: u32,
    next: Id,
    /// Free: left child in the size bin. Live: serial number.
    left: u32,
    /// Free: right child in the size bin. Live: the owner's tag.
    right: u32,
}

impl Node {
    const NEW: Self = Self { start: 0, amount: 0, prev: NONE, next: NONE, left: NONE, right: NONE };
}

/// The blocks of one space: a chain of all blocks, or loners if only the live blocks are stored.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    nodes: Vec<Node>,
    /// Head of the list of unused ids, linked by `next`.
    vacant: Id,
    /// Number of ids in use.
    len: usize,
}

impl Blocks {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::NEW], vacant: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn end(&self) -> u64 {
        self.start(NONE)
    }

    pub(crate) fn footprint(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }

    #[inline]
    pub(crate) fn is_live(&self, id: Id) -> bool {
        self.nodes.get(id as usize).is_some_and(|node| node.prev & FREE == 0)
    }

    #[inline]
    pub(crate) fn is_free(&self, id: Id) -> bool {
        self.nodes[id as usize].prev & FREE != 0
    }

    #[inline]
    pub(crate) fn start(&self, id: Id) -> u64 {
        self.nodes[id as usize].start
    }

    #[inline]
    pub(crate) fn hole(&self, id: Id) -> u64 {
        self.nodes[id as usize].amount
    }

    /// Returns the size of any block, computed from the start of the next one.
    #[inline]
    pub(crate) fn size(&self, id: Id) -> u64 {
        let node = &self.nodes[id as usize];
        self.start(node.next) - node.start
    }

    #[inline]
    pub(crate) fn prev(&self, id: Id) -> Id {
        self.nodes[id as usize].prev & !FREE
    }

    #[inline]
    pub(crate) fn next(&self, id: Id) -> Id {
        self.nodes[id as usize].next
    }

    #[inline]
    pub(crate) fn requested(&self, id: Id) -> u64 {
        self.nodes[id as usize].amount
    }

    #[inline]
    pub(crate) fn serial(&self, id: Id) -> u32 {
        self.nodes[id as usize].left
    }

    #[inline]
    pub(crate) fn tag(&self, id: Id) -> u32 {
        self.nodes[id as usize].right
    }

    pub(crate) fn set_tag(&mut self, id: Id, tag: u32) {
        self.nodes[id as usize].right = tag;
    }

    #[inline]
    pub(crate) fn left(&self, id: Id) -> Id {
        self.nodes[id as usize].left
    }

    #[inline]
    pub(crate) fn right(&self, id: Id) -> Id {
        self.nodes[id as usize].right
    }

    #[inline]
    pub(crate) fn sides(&self, id: Id) -> (Id, Id) {
        let node = &self.nodes[id as usize];
        (node.left, node.right)
    }

    #[inline]
    pub(crate) fn set_sides(&mut self, id: Id, left: Id, right: Id) {
        let node = &mut self.nodes[id as usize];
        (node.left, node.right) = (left, right);
    }

    #[inline]
    pub(crate) fn set_left(&mut self, id: Id, child: Id) {
        self.nodes[id as usize].left = child;
    }

    #[inline]
    pub(crate) fn set_right(&mut self, id: Id, child: Id) {
        self.nodes[id as usize].right = child;
    }

    /// Adds a live block outside the chain, and stores `near` with it.
    #[inline]
    pub(crate) fn add_loner(&mut self, start: u64, near: u32) -> Id {
        let id = self.add();
        let node = &mut self.nodes[id as usize];
        node.start = start;
        (node.prev, node.next) = (NONE, near);
        id
    }

    #[inline]
    pub(crate) fn near(&self, id: Id) -> u32 {
        self.nodes[id as usize].next
    }

    #[inline]
    pub(crate) fn remove_loner(&mut self, id: Id) {
        let vacant = self.vacant;
        let node = &mut self.nodes[id as usize];
        node.prev = FREE;
        node.next = vacant;
        self.vacant = id;
        self.len -= 1;
    }

    /// Returns the live blocks in no particular order.
    pub(crate) fn live(&self) -> impl Iterator<Item = Id> + '_ {
        (NONE + 1..self.nodes.len() as u32).filter(|&id| self.is_live(id))
    }

    /// Appends a loner to the chain, which starts empty.
    pub(crate) fn append(&mut self, id: Id) {
        let last = self.prev(NONE);
        self.link(last, id);
        self.link(id, NONE);
    }

    #[inline]
    pub(crate) fn occupy(&mut self, id: Id, requested: u64, serial: u32, tag: u32) {
        let node = &mut self.nodes[id as usize];
        node.prev &= !FREE;
        node.amount = requested;
        node.left = serial;
        node.right = tag;
    }

    /// Detaches a live block from its owner, and links another block to it.
    #[inline]
    pub(crate) fn park(&mut self, id: Id, next: Id) {
        let node = &mut self.nodes[id as usize];
        (node.left, node.right) = (0, next);
    }

    #[inline]
    pub(crate) fn vacate(&mut self, id: Id, start: u64, size: u64) {
        let node = &mut self.nodes[id as usize];
        node.prev |= FREE;
        node.start = start;
        node.amount = size;
    }

    /// Inserts a new block into the chain before `next`, or at the end.
    #[inline]
    pub(crate) fn insert_before(&mut self, next: Id, start: u64) -> Id {
        let id = self.add();
        self.nodes[id as usize].start = start;
        self.link(self.prev(next), id);
        self.link(id, next);
        id
    }

    /// Removes a block from the chain; a neighbour takes over its range.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) {
        let (prev, next) = (self.prev(id), self.next(id));
        self.link(prev, next);
        self.remove_loner(id);
    }

    pub(crate) fn set_end(&mut self, end: u64) {
        self.nodes[NONE as usize].start = end;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Id> + '_ {
        let some = |id| (id != NONE).then_some(id);
        std::iter::successors(some(self.next(NONE)), move |&id| some(self.next(id)))
    }

    /// Returns an id for a new block, whose fields are still to be set.
    #[inline]
    fn add(&mut self) -> Id {
        self.len += 1;
        if self.vacant == NONE {
            return self.push();
        }
        let id = self.vacant;
        self.vacant = self.next(id);
        id
    }

    #[cold]
    fn push(&mut self) -> Id {
        if self.nodes.len() == self.nodes.capacity() {
            // Grown by a quarter instead of doubled: the array is most of the memory per block.
            self.nodes.reserve_exact(16 + self.nodes.len() / 4);
        }
        let id = u32::try_from(self.nodes.len()).unwrap_or(FREE);
        assert!(id < FREE, "a space has fewer than 2^31 blocks");
        self.nodes.push(Node::NEW);
        id
    }

    #[inline]
    fn link(&mut self, prev: Id, next: Id) {
        self.nodes[prev as usize].next = next;
        let node = &mut self.nodes[next as usize];
        node.prev = node.prev & FREE | prev;
    }
}
