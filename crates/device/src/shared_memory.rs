//! Memory of a SIP that another part of the process owns and uses too.
//!
//! A front such as PyTorch has device memory with addresses of its own. Shared with a machine, that memory is the HBM of a
//! SIP: programs use its addresses as they are, its bytes are the contents of the HBM, and nothing is copied.
//!
//! The pages of each block are dealt over the PEs of the SIP in turn, from the first PE on. So a large tensor uses the
//! bandwidth of all PEs, and elements with the same index of equal tensors lie in the same slice. The owner can give a
//! block [parts](BlockParts) in PEs instead: rows, columns or copies of a matrix.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::{Bytes, Checking, FreeList};

use crate::request::PeRef;
use crate::topology::{DealOrder, Spec};

/// Memory that a machine shares with its owner. The owner may change blocks and contents between launches, from any
/// thread.
pub trait SharedMemory: fmt::Debug + Send + Sync {
    /// Returns all allocated blocks, in the order of their addresses.
    fn blocks(&self) -> Vec<SharedBlock>;

    /// Reads bytes of a block.
    fn read(&self, address: u64, into: &mut [u8]);

    /// Writes bytes of a block.
    fn write(&self, address: u64, bytes: &[u8]);
}

/// A block of shared memory.
#[derive(Clone, Debug)]
pub struct SharedBlock {
    /// Addresses of the block.
    pub addresses: Range<u64>,
    /// Parts of the block in PEs; `None` if its pages are dealt.
    pub parts: Option<Arc<BlockParts>>,
}

/// A block as a matrix of bytes, of which PEs hold parts.
#[derive(Debug)]
pub struct BlockParts {
    /// Bytes of a row.
    pub row: u64,
    /// Parts that fill the matrix, by row and then by column. All have equally many copies.
    pub parts: Vec<BlockPart>,
}

/// A rectangle of a block.
#[derive(Debug)]
pub struct BlockPart {
    /// Rows of the matrix.
    pub rows: Range<u64>,
    /// Bytes of each row.
    pub bytes: Range<u64>,
    /// PEs that hold a copy, in order; all in the SIP of the memory.
    pub pes: Vec<PeRef>,
}

impl BlockParts {
    /// Returns the part that holds a byte of the block.
    fn find(&self, row: u64, byte: u64) -> Option<usize> {
        let end = self.parts.partition_point(|part| part.rows.start <= row);
        let first = self.parts.get(end.checked_sub(1)?)?.rows.start;
        let begin = self.parts.partition_point(|part| part.rows.start < first);
        let within = self.parts[begin..end].partition_point(|part| part.bytes.start <= byte);
        let found = begin + within.checked_sub(1)?;
        let part = &self.parts[found];
        (part.rows.contains(&row) && part.bytes.contains(&byte)).then_some(found)
    }

    fn copies(&self) -> usize {
        self.parts.first().map_or(1, |part| part.pes.len())
    }
}

impl BlockPart {
    fn width(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    fn size(&self) -> u64 {
        (self.rows.end - self.rows.start) * self.width()
    }

    /// Returns the copy that a PE uses: its own, else the first in its cube, else the first.
    fn copy_for(&self, pe: PeRef) -> usize {
        let in_cube = || self.pes.iter().position(|at| (at.sip, at.cube) == (pe.sip, pe.cube));
        self.pes.binary_search(&pe).ok().or_else(in_cube).unwrap_or(0)
    }
}

/// Shared memory of a SIP with the places of its blocks, as its PEs see it.
pub(crate) type Dealt = Rc<RefCell<Dealer>>;

/// Places the blocks of shared memory in the slices of PEs.
#[derive(Debug)]
pub(crate) struct Dealer {
    memory: Arc<dyn SharedMemory>,
    sip: SipId,
    order: DealOrder,
    page: u64,
    slice: Bytes,
    cubes: u64,
    /// PEs of a cube.
    pes: u64,
    /// Blocks of the last launch, by first address.
    blocks: BTreeMap<u64, Block>,
    /// Slice of each PE, in the order of dealing.
    slices: Vec<Slice>,
}

#[derive(Debug)]
struct Block {
    bytes: u64,
    parts: Option<Arc<BlockParts>>,
    /// Memory of the block in the slices of PEs: for each PE in turn, or for each part its copies. Empty until the block is
    /// first accessed.
    runs: Vec<Run>,
}

/// Contiguous memory of a block in a slice.
#[derive(Clone, Copy, Debug)]
struct Run {
    turn: usize,
    offset: u64,
    bytes: u64,
}

#[derive(Debug)]
struct Slice {
    free: FreeList,
    /// First address of the block at each run, and the number of the run in the block.
    runs: BTreeMap<u64, (u64, usize)>,
}

impl Block {
    fn is_like(&self, other: &SharedBlock) -> bool {
        let same = match (&self.parts, &other.parts) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same && self.bytes == other.addresses.end - other.addresses.start
    }
}

impl Dealer {
    pub(crate) fn new(memory: Arc<dyn SharedMemory>, spec: &Spec, sip: SipId) -> Self {
        let (cubes, pes) = (u64::from(spec.cube_count()), u64::from(spec.pe_count()));
        let free = || FreeList::new(spec.hbm.slice, Checking::Trusted);
        let slice = |_| Slice { free: free(), runs: BTreeMap::new() };
        let (page, slice_bytes, order) = (spec.hbm.page.get(), spec.hbm.slice, spec.hbm.deal);
        let slices = (0..cubes * pes).map(slice).collect();
        let blocks = BTreeMap::new();
        Self { memory, sip, order, page, slice: slice_bytes, cubes, pes, blocks, slices }
    }

    /// Returns the addresses of all blocks now, which later accesses may use. Blocks that are gone lose their places.
    pub(crate) fn refresh(&mut self) -> Vec<Range<u64>> {
        let now = self.memory.blocks();
        let mut before = std::mem::take(&mut self.blocks);
        for block in &now {
            let Range { start, end } = block.addresses;
            let is_kept = before.get(&start).is_some_and(|known| known.is_like(block));
            let kept = if is_kept { before.remove(&start) } else { None };
            let fresh =
                || Block { bytes: end - start, parts: block.parts.clone(), runs: Vec::new() };
            self.blocks.insert(start, kept.unwrap_or_else(fresh));
        }
        before.into_values().for_each(|block| self.give_back(&block.runs));
        now.into_iter().map(|block| block.addresses).collect()
    }

    /// Returns the place of an address for a PE, and the number of contiguous bytes from there on; `None` outside of all
    /// blocks, and for a block without room in the HBM.
    pub(crate) fn place(&mut self, address: u64, pe: PeRef) -> Option<(PhysAddr, u64)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        if address - start >= block.bytes {
            return None;
        }
        if block.runs.is_empty() {
            self.settle(start)?;
        }
        let block = &self.blocks[&start];
        let (run, into, left) = match &block.parts {
            None => self.paged(address - start),
            Some(parts) => parted(parts, address - start, pe)?,
        };
        let Run { turn, offset, .. } = block.runs[run];
        let (cube, pe) = self.pe(turn as u64)?;
        let offset = Bytes::new(offset + into);
        Some((PhysAddr::pe_hbm(self.sip, cube, pe, offset, self.slice).ok()?, left))
    }

    /// Returns the run of a byte of a dealt block, its offset there, and the bytes left in its page.
    fn paged(&self, into: u64) -> (usize, u64, u64) {
        let (page, into) = (into / self.page, into % self.page);
        let count = self.slices.len() as u64;
        let turn = usize::try_from(page % count).unwrap_or_default();
        (turn, page / count * self.page + into, self.page - into)
    }

    /// Takes memory in the slices of PEs for a block; `None` if one has no room.
    fn settle(&mut self, start: u64) -> Option<()> {
        let mut runs = Vec::new();
        for (turn, bytes) in self.wanted(&self.blocks[&start])? {
            let slice = &mut self.slices[turn];
            let Ok(offset) = slice.free.allocate(Bytes::new(bytes)) else {
                self.give_back(&runs);
                return None;
            };
            slice.runs.insert(offset.get(), (start, runs.len()));
            runs.push(Run { turn, offset: offset.get(), bytes });
        }
        self.blocks.get_mut(&start)?.runs = runs;
        Some(())
    }

    /// Returns the slices and sizes of the runs of a block.
    fn wanted(&self, block: &Block) -> Option<Vec<(usize, u64)>> {
        let Some(parts) = &block.parts else {
            let (count, pages) = (self.slices.len() as u64, block.bytes.div_ceil(self.page));
            let rounds = |turn: u64| (pages - turn).div_ceil(count) * self.page;
            return Some((0..).zip((0..count.min(pages)).map(rounds)).collect());
        };
        let runs = parts.parts.iter().flat_map(|part| part.pes.iter().map(|&pe| (pe, part.size())));
        let wanted =
            |(pe, bytes): (PeRef, u64)| Some((self.turn(pe)?, bytes.next_multiple_of(256)));
        runs.map(wanted).collect()
    }

    fn give_back(&mut self, runs: &[Run]) {
        for &Run { turn, offset, bytes } in runs {
            let slice = &mut self.slices[turn];
            slice.runs.remove(&offset);
            let freed = slice.free.free(Bytes::new(offset), Bytes::new(bytes));
            debug_assert!(freed.is_ok(), "it was taken as one run");
        }
    }

    /// Returns the PE whose turn it is.
    fn pe(&self, turn: u64) -> Option<(CubeId, PeId)> {
        let (cube, pe) = match self.order {
            DealOrder::Pes => (turn / self.pes, turn % self.pes),
            DealOrder::Cubes => (turn % self.cubes, turn / self.cubes),
        };
        Some((
            CubeId::new(u32::try_from(cube).ok()?).ok()?,
            PeId::new(u32::try_from(pe).ok()?).ok()?,
        ))
    }

    /// Returns the turn of a PE of the SIP; the inverse of [`pe`](Self::pe).
    fn turn(&self, pe: PeRef) -> Option<usize> {
        let (cube, number) = (u64::from(pe.cube.number()), u64::from(pe.pe.number()));
        let turn = match self.order {
            DealOrder::Pes => cube * self.pes + number,
            DealOrder::Cubes => number * self.cubes + cube,
        };
        let turn = usize::try_from(turn).ok()?;
        (pe.sip == self.sip && turn < self.slices.len()).then_some(turn)
    }

    /// Returns the address at an offset in the HBM of a cube, and the number of contiguous bytes from there on; this is the
    /// inverse of [`place`](Self::place). `None` if no block is there.
    fn address(&self, cube: CubeId, offset: u64) -> Option<(u64, u64)> {
        let pe = PeId::new(u32::try_from(offset / self.slice.get()).ok()?).ok()?;
        let offset = offset % self.slice.get();
        let turn = self.turn(PeRef { sip: self.sip, cube, pe })?;
        let (from, &(start, number)) = self.slices[turn].runs.range(..=offset).next_back()?;
        let (into, block) = (offset - from, self.blocks.get(&start)?);
        let (at, left) = match &block.parts {
            None => {
                let (round, into) = (into / self.page, into % self.page);
                let at = (round * self.slices.len() as u64 + turn as u64) * self.page + into;
                (at, self.page - into)
            }
            Some(parts) => {
                let part =
                    parts.parts.get(number / parts.copies()).filter(|part| into < part.size())?;
                let (row, byte) = (into / part.width(), into % part.width());
                let left = if part.width() == parts.row {
                    part.size() - into
                } else {
                    part.width() - byte
                };
                ((part.rows.start + row) * parts.row + part.bytes.start + byte, left)
            }
        };
        let room = block.bytes.checked_sub(at).filter(|&room| room > 0)?;
        Some((start + at, left.min(room)))
    }
}

/// Returns the run of a byte of a block in parts for a PE, its offset there, and the number of contiguous bytes.
fn parted(parts: &BlockParts, into: u64, pe: PeRef) -> Option<(usize, u64, u64)> {
    let (row, byte) = (into / parts.row, into % parts.row);
    let found = parts.find(row, byte)?;
    let part = &parts.parts[found];
    let offset = (row - part.rows.start) * part.width() + (byte - part.bytes.start);
    let left = if part.width() == parts.row { part.size() - offset } else { part.bytes.end - byte };
    Some((found * parts.copies() + part.copy_for(pe), offset, left))
}

/// Contents of shared memory in one cube.
#[derive(Clone, Debug)]
pub(crate) struct DealtCube {
    pub(crate) of: Dealt,
    pub(crate) cube: CubeId,
}

impl DealtCube {
    /// Calls `act` with the memory, the virtual address and the part of each contiguous part of a range of the HBM. Parts
    /// outside of blocks are left out.
    fn parts(
        &self,
        offset: u64,
        bytes: usize,
        mut act: impl FnMut(&dyn SharedMemory, u64, Range<usize>),
    ) {
        let dealer = self.of.borrow();
        let mut done = 0;
        while done < bytes {
            let at = offset + done as u64;
            let found = dealer.address(self.cube, at);
            let room = found.map_or(1, |(_, room)| usize::try_from(room).unwrap_or(usize::MAX));
            let part = done..bytes.min(done.saturating_add(room));
            done = part.end;
            if let Some((address, _)) = found {
                act(&*dealer.memory, address, part);
            }
        }
    }

    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        self.parts(offset, bytes, |memory, address, part| memory.read(address, &mut all[part]));
        all
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        self.parts(offset, bytes.len(), |memory, address, part| {
            memory.write(address, &bytes[part]);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::topology::Topology;

    #[derive(Debug)]
    struct Blocks(std::sync::Mutex<Vec<SharedBlock>>);

    impl SharedMemory for Blocks {
        fn blocks(&self) -> Vec<SharedBlock> {
            self.0.lock().unwrap().clone()
        }

        fn read(&self, _: u64, _: &mut [u8]) {}

        fn write(&self, _: u64, _: &[u8]) {}
    }

    /// Parts of a matrix of rows by bytes: bands of rows, each cut into columns, with copies.
    fn parts(rows: u64, row: u64, bands: u64, cuts: u64, copies: u32) -> Arc<BlockParts> {
        let sip = SipId::new(1).unwrap();
        let split = |of: u64, count: u64, at: u64| of * at / count..of * (at + 1) / count;
        let mut parts = Vec::new();
        for band in 0..bands {
            for cut in 0..cuts {
                let number = u32::try_from(band * cuts + cut).unwrap();
                let pe = |copy| PeRef {
                    sip,
                    cube: CubeId::new((number + copy) % 16).unwrap(),
                    pe: PeId::new(number % 8).unwrap(),
                };
                let mut pes: Vec<_> = (0..copies).map(pe).collect();
                pes.sort_unstable();
                let (rows, bytes) = (split(rows, bands, band), split(row, cuts, cut));
                parts.push(BlockPart { rows, bytes, pes });
            }
        }
        Arc::new(BlockParts { row, parts })
    }

    fn blocks() -> impl Strategy<Value = Vec<SharedBlock>> {
        let gap = prop_oneof![Just(0), 0..40_000_u64];
        let paged = (1..900_000_u64).prop_map(|bytes| (bytes, None));
        let parted = (1..60_u64, 1..900_u64, 1..6_u64, 1..6_u64, 1..4_u32);
        let parted = parted.prop_map(|(rows, row, bands, cuts, copies)| {
            (rows * row, Some(parts(rows, row, bands.min(rows), cuts.min(row), copies)))
        });
        let block = (gap, prop_oneof![paged, parted]);
        proptest::collection::vec(block, 0..6).prop_map(|sizes| {
            let mut at = 1 << 40;
            let next = |(gap, (bytes, parts))| {
                let start = at + gap;
                at = start + bytes;
                SharedBlock { addresses: start..at, parts }
            };
            sizes.into_iter().map(next).collect()
        })
    }

    proptest! {
        /// Places and addresses are inverse, no two bytes share a place, and all memory returns to the slices.
        #[test]
        fn every_byte_has_one_place(
            generations in proptest::collection::vec(blocks(), 1..4), page in 8_u32..16, cubes in any::<bool>(),
            asker in 0_u32..8,
        ) {
            let order = if cubes { "cubes" } else { "pes" };
            let text = format!("hbm: {{page_bytes: {}, deal: {order}}}", 1_u64 << page);
            let topology = Topology::read("test", &text).unwrap();
            let memory = Arc::new(Blocks(std::sync::Mutex::default()));
            let sip = SipId::new(1).unwrap();
            let mut dealer = Dealer::new(Arc::clone(&memory) as _, topology.spec(), sip);
            let whole = dealer.slices[0].free.free_bytes();
            let slice = topology.spec().hbm.slice;
            for blocks in generations {
                memory.0.lock().unwrap().clone_from(&blocks);
                let ranges: Vec<_> = blocks.iter().map(|block| block.addresses.clone()).collect();
                prop_assert_eq!(dealer.refresh(), ranges.clone());
                let mut seen = BTreeSet::new();
                for SharedBlock { addresses, parts } in &blocks {
                    for at in addresses.clone().step_by(97).chain([addresses.end - 1]) {
                        let pe = PeRef { sip, cube: CubeId::new(asker).unwrap(), pe: PeId::new(asker).unwrap() };
                        let (place, left) = dealer.place(at, pe).unwrap();
                        let offset = place.hbm_offset().unwrap().get();
                        let (back, room) = dealer.address(place.cube().unwrap(), offset).unwrap();
                        prop_assert_eq!((back, room), (at, left.min(addresses.end - at)));
                        prop_assert!(seen.insert(place.to_bits()) || at == addresses.end - 1);
                        let holder = u64::from(place.hbm_pe(slice).unwrap().number());
                        let into = at - addresses.start;
                        match parts {
                            None => prop_assert_eq!(holder, [into >> page, (into >> page) / 16][usize::from(cubes)] % 8),
                            Some(parts) => {
                                let part = &parts.parts[parts.find(into / parts.row, into % parts.row).unwrap()];
                                prop_assert_eq!(holder, u64::from(part.pes[0].pe.number()));
                                let own = part.pes.iter().any(|pe| pe.cube.number() == asker);
                                prop_assert!(!own || place.cube().unwrap().number() == asker);
                            }
                        }
                    }
                    let outside = dealer.place(addresses.end, PeRef { sip, cube: CubeId::new(0).unwrap(), pe: PeId::new(0).unwrap() });
                    prop_assert!(outside.is_none() || ranges.iter().any(|other| other.start == addresses.end));
                }
            }
            memory.0.lock().unwrap().clear();
            dealer.refresh();
            prop_assert!(dealer.slices.iter().all(|slice| slice.free.free_bytes() == whole && slice.runs.is_empty()));
        }
    }
}
