//! A corpus of out-of-memory states: random devices, settings and programs.

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{
    AddressMode, Card, CardSpec, DeviceMemory, MemoryInfo, RegionHandle, TableInfo,
};
use cubeyard_memory::flex::{
    Allocation, FlexAllocator, FlexConfig, OutOfMemory, Pin, VirtualAddress,
};
use cubeyard_memory::policy::{Kind, Request};

use super::super::ManualStreams;
use super::refused;

/// A device, settings, and a program that the allocator can serve.
#[derive(Clone, Debug)]
pub(super) struct Case {
    spec: CardSpec,
    /// Memory that others hold.
    occupied: Bytes,
    /// Whether the device can commit memory in granules.
    pub(super) commits: bool,
    /// Whether the program uses one stream and no special alignment, so that a history has all about it.
    plain: bool,
    pub(super) config: FlexConfig,
    pub(super) operations: Vec<Operation>,
}

/// A step of a program. Blocks are numbered in the order of their allocation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Allocate(Request),
    Free(usize),
    Pin(usize),
    Leak(usize),
    RecordStream(usize, u32),
    Finish(u32),
}

/// An allocator after a program.
pub(super) struct Run {
    pub(super) allocator: FlexAllocator,
    streams: Arc<ManualStreams>,
    blocks: Vec<(Request, Held)>,
    _others: Option<RegionHandle>,
}

/// Ownership of a block.
#[derive(Default)]
struct Held {
    allocation: Option<Allocation>,
    leaked: Option<VirtualAddress>,
    pin: Option<Pin>,
}

impl Held {
    fn address(&self) -> Option<VirtualAddress> {
        let pinned = || self.pin.as_ref().map(Pin::address);
        self.allocation.as_ref().map(Allocation::address).or(self.leaked).or_else(pinned)
    }
}

/// A card that cannot commit memory in granules.
struct Plain(Card);

impl DeviceMemory for Plain {
    fn mode(&self) -> AddressMode {
        self.0.mode()
    }
    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        self.0.try_acquire(size)
    }
    fn release(&self, region: RegionHandle) {
        self.0.release(region);
    }
    fn info(&self) -> MemoryInfo {
        self.0.info()
    }
    fn table(&self) -> Option<TableInfo> {
        self.0.table()
    }
}

impl Case {
    /// Returns whether a replay of the history is exact.
    pub(super) fn is_exact(&self) -> bool {
        self.plain && self.config.history > 0
    }

    /// Runs the program; returns `None` if a request finds no room.
    pub(super) fn run(&self) -> Option<Run> {
        let card = Card::new(self.spec);
        let others = card.try_acquire(self.occupied);
        let device: Arc<dyn DeviceMemory> =
            if self.commits { Arc::new(card) } else { Arc::new(Plain(card)) };
        let streams = Arc::new(ManualStreams::default());
        let builder = FlexAllocator::builder(device).config(self.config.clone());
        let allocator = builder.events(streams.clone()).build().unwrap();
        let mut run = Run { allocator, streams, blocks: Vec::new(), _others: others };
        self.operations.iter().try_for_each(|&operation| run.apply(operation))?;
        Some(run)
    }
}

impl Run {
    fn apply(&mut self, operation: Operation) -> Option<()> {
        match operation {
            Operation::Allocate(request) => {
                let allocation = self.allocator.allocate_for(&request).ok();
                self.blocks.push((request, Held { allocation, ..Held::default() }));
                self.blocks.last()?.1.address()?;
            }
            Operation::Free(block) => {
                let held = &mut self.blocks[block].1;
                if let Some(address) = held.leaked.take() {
                    self.allocator.deallocate(address).unwrap();
                }
                held.allocation = None;
            }
            Operation::Pin(block) => {
                let held = &mut self.blocks[block].1;
                held.pin = held.allocation.as_ref().map(Allocation::pin);
            }
            Operation::Leak(block) => {
                let held = &mut self.blocks[block].1;
                held.leaked = held.allocation.take().map(Allocation::leak).or(held.leaked);
            }
            Operation::RecordStream(block, stream) => {
                self.blocks[block].1.allocation.as_ref().inspect(|it| it.record_stream(stream));
            }
            Operation::Finish(stream) => self.streams.finish(stream),
        }
        Some(())
    }

    /// Returns the live blocks in the order of their allocation.
    pub(super) fn live(&self) -> impl Iterator<Item = (VirtualAddress, Request)> + '_ {
        self.blocks.iter().filter_map(|(request, held)| Some((held.address()?, *request)))
    }

    /// Frees the block at an address, however it is held.
    pub(super) fn free_at(&mut self, address: VirtualAddress) {
        let found = self.blocks.iter().position(|(_, held)| held.address() == Some(address));
        let block = found.expect("a block to be freed is live");
        self.apply(Operation::Free(block));
        self.blocks[block].1.pin = None;
        (0..=3).for_each(|stream| self.streams.finish(stream));
        self.allocator.synchronize();
    }
}

fn one_of<T: Copy>(random: &mut fastrand::Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// Returns a device and settings without a program.
fn case(random: &mut fastrand::Rng) -> Case {
    let memory = Bytes::mib(random.u64(16..=96));
    let granule = one_of(random, &[Bytes::kib(64), Bytes::mib(1), Bytes::mib(2)]);
    let spec = match random.u8(..3) {
        0 => CardSpec { granule, ..CardSpec::virtual_function(memory, random.usize(3..=8)) },
        _ => CardSpec { granule, ..CardSpec::physical(memory) },
    };
    let commits = random.u8(..4) > 0;
    let growth = match random.u8(..4) {
        0 if commits => format!("growable({}MiB)", random.u64(8..=256)),
        1 if commits => format!("recycle({}MiB)", random.u64(8..=256)),
        _ => "fixed".to_owned(),
    };
    let sizes: Vec<_> = (0..random.usize(1..=3)).map(|_| random.u64(4..=40)).collect();
    let sizes: Vec<_> = sizes.iter().map(|size| format!("{size}MiB")).collect();
    let text = format!(
        "fallback_sizes:[{}],max_regions:{},region:{},block:{},growth:{growth},release:{},acquire:{},history:{}{}",
        sizes.join(";"),
        random.usize(1..=6),
        one_of(random, &["load-balancing", "load-balancing", "fill-first", "thread-home"]),
        one_of(random, &["first-fit", "best-fit", "quick-fit", "lifetime"]),
        one_of(random, &["never", "when_idle(0)", "when_idle(8MiB)"]),
        one_of(random, &["lazy", "lazy", "first", "eager(2)"]),
        one_of(random, &[0, 100_000]),
        one_of(random, &["", "", "", ",own_regions:[program]"]),
    );
    let some = random.u64(1..=8);
    let occupied = Bytes::mib(one_of(random, &[0, 0, some]));
    let plain = random.bool();
    Case { spec, occupied, commits, plain, config: text.parse().unwrap(), operations: Vec::new() }
}

/// Returns a random request: most blocks are small, some are large.
fn request(random: &mut fastrand::Rng, plain: bool) -> Request {
    let most = 1 << random.u32(10..=23);
    let size = Bytes::new(random.u64(1..=most));
    let alignment = Bytes::new(one_of(random, &[1, 1, 1, 1, 1, 4096]));
    let kind = one_of(random, &[Kind::Tensor, Kind::Tensor, Kind::Tensor, Kind::Program]);
    let stream = one_of(random, &[0, 0, 0, 1, 2]);
    let common = Request { kind, site: random.u32(..3), ..Request::new(size) };
    if plain { common } else { Request { alignment, stream, ..common } }
}

/// Drives a random case until a request finds no room, and returns the case up to this request, the request and the
/// report. Returns `None` if that takes too long.
pub(super) fn exhausted(seed: u64) -> Option<(Case, Request, OutOfMemory)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut case = case(&mut random);
    let mut run = case.run()?;
    let frees = random.u8(20..=45);
    for _ in 0..3_000 {
        let operation = next(&mut random, &run, frees, case.plain);
        if run.apply(operation).is_none() {
            let Operation::Allocate(request) = operation else { return None };
            let report = refused(case.run()?.allocator.allocate_for(&request))?;
            return Some((case, request, report));
        }
        case.operations.push(operation);
    }
    None
}

fn next(random: &mut fastrand::Rng, run: &Run, frees: u8, plain: bool) -> Operation {
    let live: Vec<_> =
        (0..run.blocks.len()).filter(|&at| run.blocks[at].1.address().is_some()).collect();
    let chance = random.u8(..100);
    if live.is_empty() || chance >= frees + 6 {
        return Operation::Allocate(request(random, plain));
    }
    let block = one_of(random, &live);
    match chance.checked_sub(frees) {
        None => Operation::Free(block),
        Some(0) => Operation::Pin(block),
        Some(1) => Operation::Leak(block),
        Some(2) if !plain => Operation::RecordStream(block, 3),
        Some(2) => Operation::Finish(0),
        Some(stream) => Operation::Finish(u32::from(stream) - 3),
    }
}
