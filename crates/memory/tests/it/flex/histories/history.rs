//! One random history: an allocator, its device, and the ledger of what they should be.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{DeviceMemory as _, Fault};
use cubeyard_memory::flex::{FlexAllocator, Launch, Pool, PoolId, PoolSpec, Pooling};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{self, Quantity};
use fastrand::Rng;

use super::block::{Block, Owner};
use super::ground::Domain;
use super::guarded::Guarded;
use super::labels::Tag;
use super::moving::Plan;
use super::seen::Seen;
use super::setup::Setup;
use crate::flex::ledger::Ledger;

/// A launch that runs: the blocks that it holds, and its work.
pub(super) struct Running {
    pub(super) launch: Launch,
    pub(super) blocks: Vec<u64>,
    pub(super) work: Option<(u32, u64)>,
}

pub(super) struct History {
    pub(super) random: Rng,
    pub(super) setup: Setup,
    pub(super) allocator: FlexAllocator,
    pub(super) device: Arc<Guarded>,
    pub(super) ledger: Option<Arc<Mutex<Ledger>>>,
    pub(super) blocks: Vec<Block>,
    pub(super) plan: Option<Plan>,
    pub(super) running: Vec<Running>,
    /// Number and bytes of blocks, small and large.
    pub(super) sums: [(u64, u64); 2],
    /// Maximum of the number and of the bytes since the last reset.
    pub(super) peaks: (u64, u64),
    pub(super) pools: Vec<Pool>,
    pub(super) tags: Vec<Tag>,
    /// Bytes of paused blocks.
    pub(super) paused: u64,
    /// Number and bytes of blocks that the history tends to.
    target: (usize, u64),
    next: u64,
    pub(super) seen: Seen,
    /// Last operations, for the report of a failure.
    recent: VecDeque<(u64, String)>,
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.setup)?;
        self.recent.iter().try_for_each(|(number, text)| writeln!(f, "{number}: {text}"))
    }
}

impl History {
    pub(super) fn new(number: usize) -> Self {
        let mut random = Rng::with_seed(number as u64);
        let setup = Setup::new(number, &mut random);
        let device = Arc::new(Guarded::new(setup.card));
        let mut builder =
            FlexAllocator::builder(device.clone()).config(setup.config.parse().unwrap());
        if setup.lag.is_some() {
            builder = builder.events(device.streams.clone());
        }
        let ledger = setup.subscribed.then(Arc::<Mutex<Ledger>>::default);
        if let Some(ledger) = ledger.clone() {
            builder = builder.subscriber(move |event| ledger.lock().unwrap().apply(event));
        }
        let allocator = builder.build().unwrap();
        let pool = |limit: &Option<Bytes>| {
            allocator.pool(PoolSpec { limit: *limit, ..PoolSpec::new("a pool") })
        };
        Self {
            random,
            pools: setup.pools.iter().map(pool).collect(),
            tags: (0..setup.tags).map(|number| Tag::new(&allocator, number)).collect(),
            paused: 0,
            allocator,
            setup,
            device,
            ledger,
            blocks: Vec::new(),
            plan: None,
            running: Vec::new(),
            sums: [(0, 0); 2],
            peaks: (0, 0),
            target: (0, 0),
            next: 0,
            seen: Seen::default(),
            recent: VecDeque::new(),
        }
    }

    pub(super) fn run(&mut self, operations: u64) {
        for number in 0..operations {
            if number.is_multiple_of(1000) {
                self.new_target();
            }
            self.step(number);
            self.seen.operations += 1;
            self.peaks = (self.peaks.0.max(self.count()), self.peaks.1.max(self.bytes()));
            if number.is_multiple_of(self.setup.period) {
                self.check_statistics();
            }
            if number % 251 == 250 {
                self.check_all();
            }
        }
        self.check_all();
    }

    /// Draws the number and the bytes of the blocks that the history tends to.
    fn new_target(&mut self) {
        let memory = self.setup.card.memory.get();
        let parts = [memory / 8, memory / 2, memory * 3 / 4, memory * 9 / 8];
        self.target = (self.random.usize(1..300), parts[self.random.usize(..4)]);
    }

    /// Tends to fewer blocks, after a refusal.
    pub(super) fn shrink_target(&mut self) {
        self.target = (self.target.0, self.bytes() * 3 / 4);
    }

    fn step(&mut self, number: u64) {
        let draw = self.random.u32(..1000);
        let few = self.blocks.len() < self.target.0 && self.bytes() < self.target.1;
        match draw {
            0..640 if few == (draw < 400) => self.allocate(),
            0..640 => self.free(),
            640..650 => self.resize(),
            650..760 => self.work(),
            760..800 => self.advance(),
            800..830 => self.pin(),
            830..890 => self.unpin(),
            890..930 => self.change_owner(),
            930..950 => self.launch(),
            950..970 => self.finish_launch(),
            970..974 => self.compact(),
            974..978 => self.rest(),
            978 => self.replace_pool(),
            979 => self.set_budget(),
            980 => self.note("trim a pool", Self::trim_pool),
            981..983 => self.note("trim", Self::trim),
            983..986 => self.note("synchronize", |history| history.allocator.synchronize()),
            986..992 => self.fault(),
            992..994 => self.note("unlock", |history| history.allocator.unlock_regions()),
            994..996 => self.reset(),
            996..998 => self.refuse_nonsense(),
            _ => self.device.ground().forget_done(&self.device.streams.state()),
        }
        if let Some((last, _)) = self.recent.back_mut() {
            *last = number;
        }
    }

    /// Remembers an operation for the report of a failure, and does it.
    pub(super) fn note(&mut self, text: impl Into<String>, act: impl FnOnce(&mut Self)) {
        if self.recent.len() > 30 {
            self.recent.pop_front();
        }
        self.recent.push_back((u64::MAX, text.into()));
        act(self);
    }

    pub(super) fn pick(&mut self) -> Option<usize> {
        (!self.blocks.is_empty()).then(|| self.random.usize(..self.blocks.len()))
    }

    pub(super) fn stream(&mut self) -> u32 {
        self.setup.streams[self.random.usize(..self.setup.streams.len())]
    }

    /// Returns the pool and kind of the regions that may hold a block.
    pub(super) fn domain(&self, request: &Request) -> Domain {
        let own = self.allocator.config().own_regions.contains(&request.kind);
        (self.pool_of(request), own.then_some(request.kind))
    }

    /// Returns the pool of a request: its own, or its stream's if each stream has one.
    pub(super) fn pool_of(&self, request: &Request) -> PoolId {
        if request.pool == PoolId::DEFAULT && self.allocator.config().pools == Pooling::Stream {
            return self.allocator.stream_pool(request.stream).expect("streams have pools").id();
        }
        request.pool
    }

    pub(super) fn count(&self) -> u64 {
        self.sums[0].0 + self.sums[1].0
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sums[0].1 + self.sums[1].1
    }

    /// Enters a new block into the ledger, and checks its place.
    pub(super) fn enter(&mut self, mut block: Block) {
        let config = self.allocator.config();
        let granule = config.alignment.get();
        block.size = block.request.size.get().next_multiple_of(granule);
        block.request.pool = self.pool_of(&block.request);
        let Request { alignment, stream, .. } = block.request;
        let (place, end) = (block.place, block.end());
        assert!(place.1.is_multiple_of(alignment.get().max(granule)), "{place:?}: {alignment}");
        let card = self.device.card();
        assert!(card.is_backed(place.0, place.1, end), "{place:?} to {end:#x} has no memory");
        let domain = self.domain(&block.request);
        let mut ground = self.device.ground();
        ground.is_of(place.0, domain);
        block.uses = ground.take(place, end, Some(stream), &self.device.streams.state());
        drop(ground);
        self.count_block(block.size, true);
        self.charge(&block, true);
        self.blocks.push(block);
    }

    /// Removes a block from the ledger, before the allocator frees it.
    pub(super) fn remove(&mut self, index: usize) -> Block {
        let mut block = self.blocks.swap_remove(index);
        self.charge(&block, false);
        if block.paused {
            self.paused -= block.size;
            self.device.ground().let_go_paused(block.place);
            return block;
        }
        self.count_block(block.size, false);
        let uses = std::mem::take(&mut block.uses);
        self.device.ground().let_go(block.place, uses);
        block
    }

    /// Adds a block with memory to the sums, or takes it from them.
    pub(super) fn count_block(&mut self, size: u64, add: bool) {
        let sum = &mut self.sums[usize::from(size >= 1 << 20)];
        *sum = if add { (sum.0 + 1, sum.1 + size) } else { (sum.0 - 1, sum.1 - size) };
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Submits work on a stream, which runs behind by the lag of the setup. Returns its number.
    pub(super) fn submit(&mut self, stream: u32) -> Option<u64> {
        let lag = self.setup.lag?;
        let work = self.device.streams.submit(stream);
        self.device.streams.finish(stream, work.saturating_sub(lag));
        Some(work)
    }

    fn trim(&mut self) {
        let free = self.device.info().free;
        let trimmed = self.allocator.trim();
        assert!(self.device.info().free >= free + trimmed, "a trim returns what it says");
    }

    fn fault(&mut self) {
        if !self.setup.faults {
            return;
        }
        let call = self.random.usize(..5);
        let faults = [Fault::Never, Fault::Once(call), Fault::From(call)];
        let fault = faults[self.random.usize(..3)];
        self.note(format!("{fault:?}"), |history| history.device.card().inner().fail(fault));
        self.seen.faults += u64::from(fault != Fault::Never);
    }

    fn reset(&mut self) {
        if self.random.bool() {
            self.allocator.reset_accumulated_stats();
        } else {
            self.note("reset peaks", |history| history.allocator.reset_peak_stats());
            self.peaks = (self.count(), self.bytes());
        }
    }

    /// Ends the history: everything is freed, and the device has all of its memory back.
    pub(super) fn end(mut self) -> Seen {
        self.device.card().inner().fail(Fault::Never);
        if let Some(plan) = self.plan.take() {
            self.abandon(plan);
        }
        while !self.running.is_empty() {
            self.finish_launch();
        }
        self.seen.waits += self.device.streams.state().waits;
        if self.setup.allocator_first {
            return self.end_without_allocator();
        }
        while !self.blocks.is_empty() {
            let Block { owner, pins, .. } = self.remove(0);
            owner.free(&self.allocator);
            drop(pins);
        }
        self.allocator.synchronize();
        self.allocator.trim();
        let stats = self.allocator.stats();
        for quantity in Quantity::ALL {
            let current = stats::Pool::ALL.map(|pool| stats.get(quantity, pool).current);
            assert_eq!(current, [0; 3], "{quantity:?}");
        }
        is_returned(&self.device);
        self.seen
    }

    /// Ends the history with handles and pins that outlive the allocator.
    fn end_without_allocator(mut self) -> Seen {
        let leaked = |block: &Block| matches!(block.owner, Owner::Token(_) | Owner::Address(_));
        while let Some(index) = self.blocks.iter().position(leaked) {
            let Block { owner, pins, .. } = self.remove(index);
            owner.free(&self.allocator);
            drop(pins);
        }
        let Self { allocator, device, blocks, pools, seen, .. } = self;
        drop((allocator, pools));
        for block in blocks {
            if block.paused {
                device.ground().let_go_paused(block.place);
            } else {
                device.ground().let_go(block.place, block.uses);
            }
            drop((block.owner, block.pins));
        }
        is_returned(&device);
        seen
    }
}

fn is_returned(device: &Guarded) {
    let info = device.info();
    assert_eq!(info.free, info.total, "the device has all of its memory back");
    assert_eq!((device.card().regions(), device.ground().len()), (0, 0));
}
