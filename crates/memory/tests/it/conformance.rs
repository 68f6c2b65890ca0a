//! Every allocator and every policy runs through the one conformance suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::conformance::{Placed, Refused, Report, Subject, check};
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{self, Allocation, BlockState, FlexAllocator, FlexConfig};
use cubeyard_memory::free_list::{self, AllocateCause, Checking, NoRoom};
use cubeyard_memory::index::{Block, Extent, Fit, FreeIndex};
use cubeyard_memory::pe::AddressSpec;
use cubeyard_memory::policy::{self, Request};
use cubeyard_memory::virtual_space::VirtualSpec;
use cubeyard_memory::{Bytes, CubeSram, DeviceVa, FreeList, PeMemory, VirtualAllocator};

/// The bare index with one fit.
struct Indexed {
    index: FreeIndex,
    fit: Fit,
    live: BTreeMap<u32, Block>,
}

impl Indexed {
    fn new(fit: Fit) -> Self {
        let index = FreeIndex::new(Bytes::mib(4), Bytes::new(128));
        Self { index, fit, live: BTreeMap::new() }
    }
}

impl Subject for Indexed {
    fn granule(&self) -> Bytes {
        self.index.granule()
    }
    fn longest(&self) -> Bytes {
        self.index.capacity()
    }
    fn aligns(&self) -> bool {
        true
    }
    fn space(&self, _space: u64) -> Bytes {
        self.index.capacity()
    }
    fn allocate(&mut self, number: u32, size: Bytes, alignment: Bytes) -> Result<Placed, Refused> {
        // The index itself serves zero bytes with a block of one granule; its users refuse such a request.
        if size.is_zero() {
            return Err(Refused::Senseless);
        }
        let block = self.index.allocate_aligned(self.fit, size, alignment, number);
        let block = block.ok_or(Refused::NoRoom {
            wanted: size.align_up(self.granule()).unwrap_or(Bytes::MAX),
            free: self.index.free_bytes(),
            largest: self.index.largest(),
        })?;
        self.live.insert(number, block);
        Ok(Placed { space: 0, offset: block.offset, size: block.size })
    }
    fn free(&mut self, number: u32) {
        let block = self.live.remove(&number).unwrap();
        self.index.free(block.key).unwrap();
        assert!(self.index.free(block.key).is_err(), "a second free is refused");
    }
    fn live(&self) -> Vec<Placed> {
        let live = self.index.extents().into_iter().filter_map(|part| match part {
            Extent::Live(block) => Some(block),
            Extent::Free(_) => None,
        });
        live.map(|block| Placed { space: 0, offset: block.offset, size: block.size }).collect()
    }
    fn used(&self) -> Bytes {
        self.index.capacity() - self.index.free_bytes()
    }
}

/// Any allocator of ADR-0048. All are built on a free list; the fields say how to call the allocator and where its list
/// is.
struct Listed<A, P> {
    inner: A,
    granule: Bytes,
    list: fn(&A) -> Usage,
    allocate: fn(&mut A, Bytes) -> Result<P, Refused>,
    free: fn(&mut A, P, Bytes),
    offset: fn(&A, P) -> Bytes,
    live: BTreeMap<u32, (P, Bytes)>,
}

/// Figures of a free list: capacity, used bytes, and free ranges.
struct Usage {
    capacity: Bytes,
    used: Bytes,
    holes: Vec<(Bytes, Bytes)>,
}

fn usage(list: &FreeList) -> Usage {
    let holes = list.holes().map(|hole| (hole.offset, hole.size)).collect();
    Usage { capacity: list.capacity(), used: list.used(), holes }
}

fn refused(error: free_list::AllocateError) -> Refused {
    match error.cause {
        AllocateCause::NoRoom(NoRoom { wanted, free, largest, .. }) => {
            Refused::NoRoom { wanted, free, largest }
        }
        _ => Refused::Senseless,
    }
}

impl<A, P: Copy> Subject for Listed<A, P> {
    fn granule(&self) -> Bytes {
        self.granule
    }
    fn longest(&self) -> Bytes {
        (self.list)(&self.inner).capacity
    }
    fn aligns(&self) -> bool {
        false
    }
    fn space(&self, _space: u64) -> Bytes {
        (self.list)(&self.inner).capacity
    }
    fn allocate(&mut self, number: u32, size: Bytes, _alignment: Bytes) -> Result<Placed, Refused> {
        let place = (self.allocate)(&mut self.inner, size)?;
        self.live.insert(number, (place, size));
        let offset = (self.offset)(&self.inner, place);
        Ok(Placed { space: 0, offset, size: size.align_up(self.granule).unwrap() })
    }
    fn free(&mut self, number: u32) {
        let (place, size) = self.live.remove(&number).unwrap();
        (self.free)(&mut self.inner, place, size);
    }
    fn live(&self) -> Vec<Placed> {
        let usage = (self.list)(&self.inner);
        let mut live: Vec<_> = self
            .live
            .values()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|&(place, size)| {
                let offset = (self.offset)(&self.inner, place);
                Placed { space: 0, offset, size: size.align_up(self.granule).unwrap() }
            })
            .collect();
        live.sort_unstable();
        // The list only knows its free ranges; together with the blocks, they fill the space.
        let mut parts: Vec<_> = live.iter().map(|placed| (placed.offset, placed.size)).collect();
        parts.extend(&usage.holes);
        parts.sort_unstable();
        let mut end = Bytes::ZERO;
        for (offset, size) in parts {
            assert_eq!(offset, end, "blocks and free ranges fill the space");
            end += size;
        }
        assert_eq!(end, usage.capacity);
        let touch = |pair: &[(Bytes, Bytes)]| pair[0].0 + pair[0].1 == pair[1].0;
        assert!(!usage.holes.windows(2).any(touch), "no two free ranges touch");
        live
    }
    fn used(&self) -> Bytes {
        (self.list)(&self.inner).used
    }
}

fn free_list(checking: Checking) -> Listed<FreeList, Bytes> {
    Listed {
        inner: FreeList::new(Bytes::mib(1), checking),
        granule: Bytes::new(1),
        list: usage,
        allocate: |list, size| list.allocate(size).map_err(refused),
        free: |list, offset, size| list.free(offset, size).unwrap(),
        offset: |_, offset| offset,
        live: BTreeMap::new(),
    }
}

const SPEC: AddressSpec = AddressSpec {
    hbm_bytes_per_cube: Bytes::gib(48),
    hbm_slices_per_cube: 8,
    tcm_bytes_per_pe: Bytes::mib(16),
    tcm_scheduler_reserved_bytes: Bytes::mib(1),
    sram_bytes_per_cube: Bytes::mib(32),
};

fn pe_memory(checking: Checking) -> PeMemory {
    let (sip, cube, pe) = (SipId::new(0), CubeId::new(3), PeId::new(2));
    let layout = SPEC.resolve().unwrap();
    PeMemory::new(sip.unwrap(), cube.unwrap(), pe.unwrap(), &layout, checking).unwrap()
}

fn hbm(checking: Checking) -> Listed<PeMemory, PhysAddr> {
    Listed {
        inner: pe_memory(checking),
        granule: Bytes::new(1),
        list: |memory| usage(memory.hbm()),
        allocate: |memory, size| memory.allocate_hbm(size).map_err(refused),
        free: |memory, address, size| memory.free_hbm(address, size).unwrap(),
        offset: |memory, address| {
            Bytes::new(address.hbm_offset().unwrap().get() % memory.hbm().capacity().get())
        },
        live: BTreeMap::new(),
    }
}

fn tcm(checking: Checking) -> Listed<PeMemory, PhysAddr> {
    Listed {
        inner: pe_memory(checking),
        granule: Bytes::new(1),
        list: |memory| usage(memory.tcm()),
        allocate: |memory, size| memory.allocate_tcm(size).map_err(refused),
        free: |memory, address, size| memory.free_tcm(address, size).unwrap(),
        offset: |_, address| match address.window() {
            cubeyard_memory::address::Window::Tcm { offset, .. } => offset,
            other => panic!("{other:?} is not TCM"),
        },
        live: BTreeMap::new(),
    }
}

fn sram(checking: Checking) -> Listed<CubeSram, PhysAddr> {
    let layout = SPEC.resolve().unwrap();
    Listed {
        inner: CubeSram::new(SipId::new(1).unwrap(), CubeId::new(5).unwrap(), &layout, checking),
        granule: Bytes::new(1),
        list: |memory| usage(memory.sram()),
        allocate: |memory, size| memory.allocate(size).map_err(refused),
        free: |memory, address, size| memory.free(address, size).unwrap(),
        offset: |_, address| match address.window() {
            cubeyard_memory::address::Window::Sram { offset } => offset,
            other => panic!("{other:?} is not SRAM"),
        },
        live: BTreeMap::new(),
    }
}

fn pages(checking: Checking) -> Listed<VirtualAllocator, DeviceVa> {
    let spec = VirtualSpec {
        page: Bytes::kib(4),
        checking,
        ..VirtualSpec::new(DeviceVa::new(1 << 32), Bytes::mib(16))
    };
    Listed {
        inner: VirtualAllocator::from_spec(spec).unwrap(),
        granule: Bytes::kib(4),
        list: |space| Usage {
            capacity: space.capacity(),
            used: space.used(),
            holes: space.holes().map(|hole| (hole.offset, hole.size)).collect(),
        },
        allocate: |space, size| space.allocate(size).map_err(refused),
        free: |space, va, size| space.free(va, size).unwrap(),
        offset: |space, va| Bytes::new(va.to_bits() - space.base().to_bits()),
        live: BTreeMap::new(),
    }
}

/// A Flex allocator over a card, with any configuration.
struct Flexed {
    allocator: FlexAllocator,
    live: BTreeMap<u32, Allocation>,
    longest: Bytes,
}

impl Flexed {
    fn new(card: CardSpec, config: &str) -> Self {
        let config: FlexConfig = config.parse().unwrap();
        let longest = match config.growth {
            flex::Growth::Fixed => config.fallback_sizes[0],
            flex::Growth::Growable(size) | flex::Growth::Recycle(size) => size.min(card.memory),
        };
        let builder = FlexAllocator::builder(Arc::new(Card::new(card))).config(config);
        Self { allocator: builder.build().unwrap(), live: BTreeMap::new(), longest }
    }
}

impl Subject for Flexed {
    fn granule(&self) -> Bytes {
        Bytes::new(128)
    }
    fn longest(&self) -> Bytes {
        self.longest
    }
    fn aligns(&self) -> bool {
        true
    }
    fn space(&self, space: u64) -> Bytes {
        let table = self.allocator.segment_table();
        let segments = table.entries().iter().flatten();
        segments.clone().find(|segment| segment.region_id.get() == space).unwrap().size
    }
    fn allocate(&mut self, number: u32, size: Bytes, alignment: Bytes) -> Result<Placed, Refused> {
        let request = Request { alignment, ..Request::new(size) };
        match self.allocator.allocate_for(&request) {
            Ok(block) => {
                let (address, size) = (block.address(), block.size());
                self.live.insert(number, block);
                Ok(Placed { space: address.region_id.get(), offset: address.offset, size })
            }
            Err(flex::AllocateError::OutOfMemory(report)) => {
                let (wanted, free, largest) = (report.rounded, report.free, report.largest);
                Err(Refused::NoRoom { wanted, free, largest })
            }
            Err(_) => Err(Refused::Senseless),
        }
    }
    fn free(&mut self, number: u32) {
        drop(self.live.remove(&number).unwrap());
    }
    fn live(&self) -> Vec<Placed> {
        let table = self.allocator.segment_table();
        let mut live = Vec::new();
        for segment in self.allocator.snapshot().segments {
            let mut end = segment.address;
            let mut free = false;
            for block in &segment.blocks {
                assert_eq!(block.address, end, "parts follow each other");
                end += block.size.get();
                let inactive = block.state == BlockState::Inactive;
                assert!(!(free && inactive), "no two free parts touch");
                free = inactive;
                if !inactive {
                    let holds = |entry: &&flex::Segment| {
                        (entry.base..entry.base + entry.size.get()).contains(&block.address)
                    };
                    let entry = table.entries().iter().flatten().find(holds).unwrap();
                    let offset = Bytes::new(block.address - entry.base);
                    let space = entry.region_id.get();
                    live.push(Placed { space, offset, size: block.size });
                }
            }
            assert_eq!(end, segment.address + segment.total_size.get(), "they fill the segment");
        }
        live.sort_unstable();
        live
    }
    fn used(&self) -> Bytes {
        self.allocator.stats().allocated()
    }
}

/// Returns all subjects by name, each with its run of the suite.
fn subjects() -> Vec<(String, Box<dyn Fn() -> Report>)> {
    let mut subjects: Vec<(String, Box<dyn Fn() -> Report>)> = Vec::new();
    for fit in [Fit::First, Fit::Best, Fit::Last] {
        subjects.push((format!("index/{fit:?}"), Box::new(move || check(|| Indexed::new(fit)))));
    }
    for checking in [Checking::Trusted, Checking::Checked] {
        let name = |what: &str| format!("{what}/{checking:?}");
        subjects.push((name("free-list"), Box::new(move || check(|| free_list(checking)))));
        subjects.push((name("pe/hbm"), Box::new(move || check(|| hbm(checking)))));
        subjects.push((name("pe/tcm"), Box::new(move || check(|| tcm(checking)))));
        subjects.push((name("cube/sram"), Box::new(move || check(|| sram(checking)))));
        subjects.push((name("virtual"), Box::new(move || check(|| pages(checking)))));
    }
    let memory = Bytes::mib(40);
    for (mode, card) in
        [("pf", CardSpec::physical(memory)), ("vf", CardSpec::virtual_function(memory, 8))]
    {
        for growth in ["fixed", "growable(32MiB)", "recycle(32MiB)"] {
            for region in policy::REGION {
                for block in policy::BLOCK {
                    let name = format!("flex/{mode}/{growth}/{}/{}", region.name, block.name);
                    let config = format!(
                        "fallback_sizes:[24MiB;8MiB],max_regions:4,growth:{growth},region:{},block:{}",
                        region.name, block.name
                    );
                    let run = move || check(|| Flexed::new(card, &config));
                    subjects.push((name, Box::new(run)));
                }
            }
        }
    }
    subjects
}

#[test]
fn every_allocator_and_policy_passes_the_suite() {
    let subjects = subjects();
    let mut table = String::new();
    for (name, run) in &subjects {
        let Report { placed, freed, refused } = run();
        assert!(placed > 1000 && freed == placed && refused > 2, "{name} was hardly tried");
        writeln!(table, "{name}: {placed} placed, {refused} refused").unwrap();
    }
    println!("{table}{} subjects", subjects.len());
    let flex = 2 * 3 * policy::REGION.len() * policy::BLOCK.len();
    assert_eq!(subjects.len(), 3 + 2 * 5 + flex);
    assert!(flex >= 36, "all policies are picked up: {flex}");
}
