//! Real threads on one allocator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory};
use cubeyard_memory::flex::{Allocation, FlexAllocator};
use cubeyard_memory::stats::{Pool, Quantity};

use super::{Strict, allocator};

const GRANULE: u64 = 4096;

/// Owner of every granule of every region; detects at once when two threads own one granule.
struct Owners {
    map: Vec<AtomicU64>,
    region: u64,
}

impl Owners {
    /// Creates a table for up to 8 regions of a virtual function.
    fn new(region: u64) -> Self {
        let map = (0..8 * region / GRANULE).map(|_| AtomicU64::new(0)).collect();
        Self { map, region }
    }

    fn granules(&self, block: &Allocation) -> &[AtomicU64] {
        let address = block.address();
        let start = (address.region_id.get() * self.region + address.offset.get()) / GRANULE;
        &self.map[start as usize..(start + block.size().get() / GRANULE) as usize]
    }

    /// Records that `who` now owns a block.
    fn hold(&self, block: Allocation, who: u64) -> Held<'_> {
        for granule in self.granules(&block) {
            assert_eq!(granule.swap(who, Ordering::AcqRel), 0, "two blocks overlap");
        }
        Held { owners: self, who, block }
    }
}

/// A block that is recorded as owned until it is dropped.
struct Held<'a> {
    owners: &'a Owners,
    who: u64,
    block: Allocation,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for granule in self.owners.granules(&self.block) {
            assert_eq!(granule.swap(0, Ordering::AcqRel), self.who, "somebody was in this block");
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

type Device = Strict<Card>;

fn device() -> Arc<Device> {
    Arc::new(Strict::new(Card::new(CardSpec::virtual_function(Bytes::mib(128), 8))))
}

/// Runs threads that allocate, keep, pass on and free blocks; some trim and read the statistics. Returns the number of
/// blocks.
fn hammer(device: &Arc<Device>, config: &str, rounds: u64) -> u64 {
    let region = Bytes::mib(16);
    let allocator = allocator(device.clone(), config);
    let owners = Owners::new(region.get());
    let placed = AtomicU64::new(0);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| mpsc::channel()).unzip();
    thread::scope(|scope| {
        for (number, inbox) in receivers.into_iter().enumerate() {
            let (shared, who) = ((&allocator, &owners, &placed), number as u64 + 1);
            let next = senders[(number + 1) % 4].clone();
            scope.spawn(move || worker(shared, (who, rounds), &inbox, &next));
        }
        drop(senders);
    });
    nothing_is_left(&allocator, device);
    let stats = allocator.stats();
    let allocations = stats.get(Quantity::Allocation, Pool::All);
    assert_eq!(allocations.allocated, placed.load(Ordering::Relaxed), "every block was counted");
    allocations.allocated
}

fn worker<'a>(
    (allocator, owners, placed): (&FlexAllocator, &'a Owners, &AtomicU64),
    (who, rounds): (u64, u64),
    inbox: &mpsc::Receiver<Held<'a>>,
    next: &mpsc::Sender<Held<'a>>,
) {
    let mut random = Random(who);
    let mut kept: Vec<Held<'_>> = Vec::new();
    for round in 0..rounds {
        let size = Bytes::new((1 + random.below(16)) * GRANULE);
        if let Ok(block) = allocator.allocate(size) {
            placed.fetch_add(1, Ordering::Relaxed);
            let block = owners.hold(block, who);
            match random.below(3) {
                // The other thread may have finished; then the block comes back and is freed here.
                0 => drop(next.send(block)),
                _ => kept.push(block),
            }
        }
        if kept.len() > 40 || random.below(2) == 0 && !kept.is_empty() {
            drop(kept.swap_remove(random.below(kept.len() as u64) as usize));
        }
        inbox.try_iter().for_each(drop);
        if round % 256 == 255 {
            let stats = allocator.stats();
            let active = stats.get(Quantity::ActiveBytes, Pool::All).current;
            assert!(stats.allocated().get() <= active && active <= stats.reserved().get());
            if who == 1 {
                allocator.trim();
            }
        }
    }
}

fn nothing_is_left(allocator: &FlexAllocator, device: &Arc<Device>) {
    let stats = allocator.stats();
    for quantity in Quantity::ALL {
        let stat = stats.get(quantity, Pool::All);
        assert_eq!(stat.current, stat.allocated - stat.freed, "{quantity:?}");
    }
    assert_eq!(stats.get(Quantity::Active, Pool::All).current, 0);
    allocator.trim();
    assert_eq!(device.info().free, device.info().total);
}

#[test]
fn shared_regions_under_contention() {
    let blocks = hammer(&device(), "fallback_sizes:[16MiB]", 3000);
    assert!(blocks > 8000, "{blocks}");
}

#[test]
fn own_regions_with_foreign_frees() {
    let blocks = hammer(&device(), "fallback_sizes:[16MiB],region:thread-home", 3000);
    assert!(blocks > 8000, "{blocks}");
}

/// A slot keeps references to itself that arrived with its mail, for its next blocks. They must not keep the slot alive
/// when the allocator and the last block are gone.
#[test]
fn regions_go_although_other_threads_have_freed_their_blocks() {
    let device = device();
    let config = "fallback_sizes:[16MiB],region:thread-home,max_regions:64";
    let allocator = allocator(device.clone(), config);
    let block = || allocator.allocate(Bytes::new(1000)).unwrap();
    for _ in 0..3 {
        let batch: Vec<_> = (0..200).map(|_| block()).collect();
        thread::scope(|scope| scope.spawn(move || drop(batch)).join().unwrap());
    }
    let last = block();
    let freed = allocator.stats().get(Quantity::Allocation, Pool::All).freed;
    assert_eq!(freed, 600);
    drop(allocator);
    assert_ne!(device.info().free, device.info().total, "a block is still there");
    drop(last);
    assert_eq!(device.info().free, device.info().total);
}

#[test]
fn growable_regions_under_contention() {
    for growth in ["growable(16MiB)", "recycle(16MiB)"] {
        let config = format!("growth:{growth},region:thread-home,block:best-fit");
        let blocks = hammer(&device(), &config, 2000);
        assert!(blocks > 4000, "{blocks}");
    }
}

#[test]
fn regions_that_go_when_idle_under_contention() {
    let config = "fallback_sizes:[16MiB],release:when_idle(0),region:fill-first";
    let blocks = hammer(&device(), config, 2000);
    assert!(blocks > 4000, "{blocks}");
}

/// Blocks are moved while their owners use them; a pin keeps a block in place.
#[test]
fn compaction_while_blocks_come_and_go() {
    let device = device();
    let allocator = allocator(device.clone(), "fallback_sizes:[16MiB],region:thread-home");
    let moved = AtomicU64::new(0);
    let working = AtomicU64::new(3);
    thread::scope(|scope| {
        for who in 0..3 {
            let (allocator, working, moved) = (&allocator, &working, &moved);
            scope.spawn(move || {
                let mut random = Random(who);
                let mut kept: Vec<Allocation> = Vec::new();
                // Repeat until both sides have run, however the threads are scheduled.
                let enough = |round| round > 1000 && moved.load(Ordering::Relaxed) > 20;
                for _ in (0..1_000_000).take_while(|&round| !enough(round)) {
                    kept.extend(allocator.allocate(Bytes::new(1 + random.below(200_000))));
                    let place = random.below(kept.len() as u64) as usize;
                    let pin = kept[place].pin();
                    assert_eq!(pin.address(), kept[place].address(), "a pinned block stays");
                    drop(pin);
                    if kept.len() > 20 {
                        let token = kept.swap_remove(place).into_token();
                        assert!(allocator.address_of(token).is_ok());
                        allocator.free_token(token).unwrap();
                    }
                }
                working.fetch_sub(1, Ordering::Release);
            });
        }
        while working.load(Ordering::Acquire) > 0 {
            moved.fetch_add(allocator.compact().commit() as u64, Ordering::Relaxed);
        }
    });
    assert!(moved.load(Ordering::Relaxed) > 10, "{moved:?} blocks have moved");
    nothing_is_left(&allocator, &device);
}

/// The last pin of a freed block freed it in a second step, and compaction could move the block before that step.
#[test]
fn pins_are_dropped_after_their_allocations_while_blocks_move() {
    let device = device();
    let allocator = allocator(device.clone(), "fallback_sizes:[16MiB]");
    let moved = AtomicU64::new(0);
    let work = || {
        // Repeat until both sides have run, however the threads are scheduled.
        let enough = |round| round > 10_000 && moved.load(Ordering::Relaxed) > 20;
        for _ in (0..10_000_000).take_while(|&round| !enough(round)) {
            let low = allocator.allocate(Bytes::new(GRANULE)).unwrap();
            let high = allocator.allocate(Bytes::new(GRANULE)).unwrap();
            drop(low);
            let pin = high.pin();
            assert_eq!(pin.address(), high.address(), "a pinned block stays");
            drop(high);
            drop(pin);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            moved.fetch_add(allocator.compact().commit() as u64, Ordering::Relaxed);
        }
    });
    nothing_is_left(&allocator, &device);
}

/// All threads need memory held by a cache; callbacks on several threads at once empty it.
#[test]
fn callbacks_under_contention() {
    let device = device();
    let allocator = allocator(device.clone(), "fallback_sizes:[16MiB]");
    let cache = Arc::new(Mutex::new(Vec::<Allocation>::new()));
    let (inside, calls) = (Arc::clone(&cache), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&calls);
    allocator.on_pressure(move |report| {
        assert!(report.rounded >= report.requested);
        counted.fetch_add(1, Ordering::Relaxed);
        // Other threads wait until the whole cache is freed, so that none finds an empty cache and full memory.
        let mut cache = inside.lock().unwrap();
        let all = std::mem::take(&mut *cache);
        // Half of the blocks are freed on this thread, half on another.
        let (here, there): (Vec<_>, Vec<_>) =
            all.into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
        let other = thread::spawn(move || drop(there));
        drop(here);
        other.join().unwrap();
    });
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    // In rare cases, other threads take the memory after the callback.
                    let block = (0..100).find_map(|_| allocator.allocate(Bytes::mib(3)).ok());
                    let block = block.expect("the cache makes room");
                    cache.lock().unwrap().push(block);
                }
            });
        }
    });
    assert!(calls.load(Ordering::Relaxed) > 10);
    cache.lock().unwrap().clear();
    nothing_is_left(&allocator, &device);
}
