//! Random histories of several threads, while another one moves blocks, trims, and takes snapshots.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, DeviceMemory as _, Fault, Faulty};
use cubeyard_memory::flex::{
    Allocation, FlexAllocator, Pin, Pool, PoolId, PoolSpec, Program, VirtualAddress,
};
use cubeyard_memory::policy::Request;
use cubeyard_memory::stats::{self, Quantity};
use fastrand::Rng;

use super::ground::Place;
use super::setup::Setup;
use crate::flex::Strict;
use crate::flex::lagging::Lagging;

const WORKERS: usize = 3;

/// Threads that share an allocator.
struct Crowd {
    setup: Setup,
    allocator: FlexAllocator,
    device: Arc<Strict<Faulty<Card>>>,
    streams: Arc<Lagging>,
    program: Option<Program>,
    pools: Vec<Pool>,
    /// Contents of device memory: the number of the block that was last written to an address.
    memory: Mutex<BTreeMap<Place, u64>>,
    /// Ends of the ranges of pinned blocks.
    pinned: Mutex<BTreeMap<Place, u64>>,
    next: AtomicU64,
    moved: AtomicU64,
    at_work: AtomicU64,
}

/// A block of a thread. Its first pin is entered in [`Crowd::pinned`].
struct Held {
    id: u64,
    block: Option<Allocation>,
    pins: Vec<Pin>,
}

fn place(address: VirtualAddress) -> Place {
    (address.region_id, address.offset.get())
}

impl Crowd {
    fn new(number: usize) -> Self {
        let setup = Setup::new(number, &mut Rng::with_seed(number as u64));
        let device = Arc::new(Strict::new(Faulty::new(Card::new(setup.card))));
        let streams = Arc::new(Lagging::default());
        let config = setup.config.parse().unwrap();
        let mut builder = FlexAllocator::builder(device.clone()).config(config);
        if setup.lag.is_some() {
            builder = builder.events(streams.clone());
        }
        let allocator = builder.build().unwrap();
        let program = allocator.load_program(Bytes::new(1000), 1).ok();
        let pool = |limit: &Option<Bytes>| {
            allocator.pool(PoolSpec { limit: *limit, ..PoolSpec::new("a pool") })
        };
        let pools = setup.pools.iter().map(pool).collect();
        let (memory, pinned) = (Mutex::default(), Mutex::default());
        let (next, moved) = (AtomicU64::new(1), AtomicU64::new(0));
        let at_work = AtomicU64::new(WORKERS as u64);
        Self {
            setup,
            allocator,
            device,
            streams,
            program,
            pools,
            memory,
            pinned,
            next,
            moved,
            at_work,
        }
    }

    /// Runs the threads, and returns the number of blocks that were placed and that moved.
    fn run(self, number: usize, operations: u64) -> (u64, u64) {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..WORKERS).map(|_| mpsc::channel()).unzip();
        thread::scope(|scope| {
            for (worker, inbox) in receivers.into_iter().enumerate() {
                let (crowd, next) = (&self, senders[(worker + 1) % WORKERS].clone());
                let random = Rng::with_seed((number * WORKERS + worker) as u64);
                scope.spawn(move || crowd.work(random, operations, &inbox, &next));
            }
            drop(senders);
            let mut random = Rng::with_seed(!number as u64);
            while self.at_work.load(Ordering::Acquire) > 0 {
                self.disturb(&mut random);
            }
        });
        self.end()
    }

    /// Works on blocks of this thread, and on those that another thread sends.
    fn work(
        &self,
        mut random: Rng,
        operations: u64,
        inbox: &mpsc::Receiver<Held>,
        next: &mpsc::Sender<Held>,
    ) {
        /// Tells that a thread has ended, even by a panic.
        struct AtWork<'a>(&'a AtomicU64);
        impl Drop for AtWork<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let _at_work = AtWork(&self.at_work);
        let mut kept: Vec<Held> = Vec::new();
        for _ in 0..operations {
            let few = kept.len() < 30;
            let chosen = random.usize(..kept.len().max(1));
            match random.u32(..10) {
                0..4 if few => kept.extend(self.allocate(&mut random)),
                _ if kept.is_empty() => {}
                0..5 => self.free(kept.swap_remove(chosen), random.bool()),
                5 | 6 => self.visit(&mut kept[chosen], random.bool()),
                7 if random.bool() => self.launch(&mut kept[chosen]),
                7 => self.resize(&mut kept[chosen], &mut random),
                8 => self.use_elsewhere(&mut kept[chosen], &mut random),
                // The other thread may have ended; then the block is freed here.
                _ => match next.send(kept.swap_remove(chosen)) {
                    Ok(()) => {}
                    Err(mpsc::SendError(held)) => self.free(held, true),
                },
            }
            kept.extend(inbox.try_iter());
        }
        kept.into_iter().for_each(|held| self.free(held, random.bool()));
        inbox.try_iter().for_each(|held| self.free(held, random.bool()));
    }

    fn allocate(&self, random: &mut Rng) -> Option<Held> {
        let size = Bytes::new(1 + random.u64(..self.setup.card.memory.get() / 64));
        let stream = self.setup.streams[random.usize(..self.setup.streams.len())];
        let pool = random.usize(..=self.pools.len()).checked_sub(1);
        let pool = pool.map_or(PoolId::DEFAULT, |pool| self.pools[pool].id());
        let request = Request { stream, pool, ..Request::new(size) };
        let block = self.allocator.allocate_for(&request).ok()?;
        assert_eq!(block.requested(), size);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut held = Held { id, block: Some(block), pins: Vec::new() };
        self.pin(&mut held);
        let at = place(held.pins[0].address());
        self.memory.lock().unwrap().insert(at, id);
        self.unpin(&mut held);
        Some(held)
    }

    /// Pins a block, and checks that it overlaps no other pinned block.
    fn pin(&self, held: &mut Held) {
        let Some(block) = &held.block else { return };
        let pin = block.pin();
        assert_eq!(pin.address(), block.address(), "a pinned block stays");
        if held.pins.is_empty() {
            let (at, end) = (place(pin.address()), (pin.address().offset + pin.size()).get());
            let mut pinned = self.pinned.lock().unwrap();
            let below = pinned.range(..(at.0, end)).next_back();
            let apart = below.is_none_or(|(&(region, _), &top)| region != at.0 || top <= at.1);
            assert!(apart, "{at:?} to {end:#x} overlaps {below:?}");
            pinned.insert(at, end);
        }
        held.pins.push(pin);
    }

    fn unpin(&self, held: &mut Held) {
        let Some(pin) = held.pins.pop() else { return };
        if held.pins.is_empty() {
            self.pinned.lock().unwrap().remove(&place(pin.address()));
        }
        drop(pin);
    }

    /// Checks that the contents of a block have followed it, and leaves it pinned or not.
    fn visit(&self, held: &mut Held, pinned: bool) {
        self.pin(held);
        let Some(pin) = held.pins.first() else { return };
        let contents = self.memory.lock().unwrap().get(&place(pin.address())).copied();
        assert_eq!(contents, Some(held.id), "the contents of a block move with it");
        if !pinned {
            self.unpin(held);
        }
    }

    fn free(&self, mut held: Held, pins_first: bool) {
        self.visit(&mut held, true);
        if pins_first {
            while !held.pins.is_empty() {
                self.unpin(&mut held);
            }
            if let Some(block) = held.block.take() {
                let token = block.into_token();
                assert!(self.allocator.address_of(token).is_ok());
                self.allocator.free_token(token).unwrap();
            }
        }
        drop(held.block.take());
        while !held.pins.is_empty() {
            self.unpin(&mut held);
        }
    }

    fn launch(&self, held: &mut Held) {
        let (Some(program), Some(block)) = (&self.program, &held.block) else { return };
        let Ok(launch) = self.allocator.launch(program, [block]) else { return };
        let address = block.address();
        let (_, entry) = launch.segment_table().get(address.region_id).expect("it is listed");
        assert_eq!(launch.operands()[0].flat, entry.base + address.offset.get());
    }

    /// Resizes a block, which another thread may be moving.
    fn resize(&self, held: &mut Held, random: &mut Rng) {
        let Some(block) = &held.block else { return };
        let (old, size) = (block.requested(), Bytes::new(1 + random.u64(..100_000)));
        let outcome = block.resize(size);
        let now = if outcome.is_ok() { size } else { old };
        assert_eq!(block.requested(), now, "{outcome:?}");
        self.visit(held, false);
    }

    fn use_elsewhere(&self, held: &mut Held, random: &mut Rng) {
        let stream = self.setup.streams[random.usize(..self.setup.streams.len())];
        if self.setup.lag.is_some() && random.bool() {
            held.block.iter().for_each(|block| block.record_stream(stream));
            self.streams.submit(stream);
        }
    }

    /// Does to the allocator what one thread does at a time: moves blocks, trims, reads figures, fails.
    fn disturb(&self, random: &mut Rng) {
        match random.u32(..20) {
            0..10 => self.compact(random),
            10 => _ = self.allocator.trim(),
            16 => self.pools.iter().for_each(|pool| _ = pool.trim()),
            11 => drop(self.allocator.snapshot()),
            12..14 => self.figures_agree(),
            14 if self.setup.faults => {
                let fault = [Fault::Never, Fault::Once(1), Fault::From(1)][random.usize(..3)];
                self.device.inner().fail(fault);
            }
            15 => self.allocator.synchronize(),
            _ => {
                let stream = self.setup.streams[random.usize(..self.setup.streams.len())];
                self.streams.advance(stream, random.u64(..5));
            }
        }
    }

    /// Moves blocks, and copies their contents before.
    fn compact(&self, random: &mut Rng) {
        let budget = Bytes::new(random.u64(1..1 << 22));
        let all = random.bool();
        let plan = if all { self.allocator.compact() } else { self.allocator.compact_step(budget) };
        if random.u32(..4) == 0 {
            return;
        }
        let mut memory = self.memory.lock().unwrap();
        for planned in plan.moves() {
            let contents = memory.get(&place(planned.from)).copied();
            contents.map(|contents| memory.insert(place(planned.to), contents));
        }
        let moved = plan.commit() as u64;
        drop(memory);
        self.moved.fetch_add(moved, Ordering::Relaxed);
    }

    fn figures_agree(&self) {
        let stats = self.allocator.stats();
        let current = |quantity| stats.get(quantity, stats::Pool::All).current;
        assert!(current(Quantity::AllocatedBytes) <= current(Quantity::ActiveBytes));
        assert!(current(Quantity::ActiveBytes) <= stats.reserved().get());
        assert!(stats.reserved() <= self.setup.card.memory);
    }

    /// Checks that everything was returned.
    fn end(self) -> (u64, u64) {
        self.device.inner().fail(Fault::Never);
        drop((self.program, self.pools));
        self.allocator.synchronize();
        self.allocator.trim();
        let stats = self.allocator.stats();
        for quantity in Quantity::ALL {
            assert_eq!(stats.get(quantity, stats::Pool::All).current, 0, "{quantity:?}");
        }
        assert_eq!(self.device.info().free, self.setup.card.memory);
        assert_eq!(self.device.regions(), 0);
        assert!(self.pinned.lock().unwrap().is_empty());
        (self.next.into_inner() - 1, self.moved.into_inner())
    }
}

/// Runs histories of threads, and returns the number of blocks that were placed and that moved.
pub(super) fn crowds(count: usize, operations: u64) -> (u64, u64) {
    let mut sums = (0, 0);
    for number in 0..count {
        let crowd = Crowd::new(number);
        println!("crowd {number}: {:?}", crowd.setup);
        let (placed, moved) = crowd.run(number, operations);
        sums = (sums.0 + placed, sums.1 + moved);
    }
    sums
}
