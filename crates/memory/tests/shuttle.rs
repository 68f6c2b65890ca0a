//! The allocator's locks under a model checker, which runs the threads in many orders.
//!
//! `RUSTFLAGS="--cfg cubeyard_shuttle" cargo test -p cubeyard-memory --release --test shuttle`
//!
//! Without that flag nothing is checked here, and one ignored test says so.

#[cfg(not(cubeyard_shuttle))]
#[test]
#[ignore = "needs RUSTFLAGS=\"--cfg cubeyard_shuttle\""]
fn the_model_checker_has_to_be_switched_on() {}

#[cfg(cubeyard_shuttle)]
#[path = "shuttle"]
mod checked {
    mod programs;

    use std::collections::BTreeMap;

    use cubeyard_memory::Bytes;
    use cubeyard_memory::device::{
        AddressMode, Card, CardSpec, DeviceMemory, MemoryInfo, RegionHandle, RegionId,
    };
    use cubeyard_memory::flex::{
        Action, AllocateError, Allocation, Budget, Event, EventId, FlexAllocator, FlexConfig,
        PoolSpec, StreamEvents,
    };
    use cubeyard_memory::policy::Request;
    use cubeyard_memory::stats::{Pool, Quantity};
    use shuttle::sync::atomic::{AtomicBool, Ordering};
    use shuttle::sync::{Arc, Barrier, Mutex, mpsc};
    use shuttle::thread;

    /// Number of random schedules per scenario; the same number is run with the scheduler that finds rare orders.
    const SCHEDULES: usize = 2_000;

    fn check(scenario: fn()) {
        shuttle::check_random(scenario, SCHEDULES);
        shuttle::check_pct(scenario, SCHEDULES, 3);
    }

    const MIB: u64 = 1 << 20;

    fn mib(count: u64) -> Bytes {
        Bytes::mib(count)
    }

    /// A card that detects concurrent calls that must be sequential.
    struct Strict {
        card: Card,
        busy: AtomicBool,
        regions: Mutex<BTreeMap<RegionId, bool>>,
    }

    impl Strict {
        fn new(memory: Bytes) -> Arc<Self> {
            let card = Card::new(CardSpec::physical(memory));
            Arc::new(Self { card, busy: AtomicBool::new(false), regions: Mutex::default() })
        }

        fn alone<T>(&self, call: impl FnOnce() -> T) -> T {
            assert!(!self.busy.swap(true, Ordering::SeqCst), "two threads acquire or release");
            thread::yield_now();
            let answer = call();
            self.busy.store(false, Ordering::SeqCst);
            answer
        }

        fn of_region<T>(&self, region: &RegionHandle, call: impl FnOnce() -> T) -> T {
            let before = self.regions.lock().unwrap().insert(region.id, true);
            assert_ne!(before, Some(true), "two threads commit or decommit");
            thread::yield_now();
            let answer = call();
            self.regions.lock().unwrap().insert(region.id, false);
            answer
        }
    }

    impl DeviceMemory for Strict {
        fn mode(&self) -> AddressMode {
            self.card.mode()
        }
        fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
            self.alone(|| self.card.try_acquire(size))
        }
        fn release(&self, region: RegionHandle) {
            self.alone(|| self.card.release(region));
        }
        fn info(&self) -> MemoryInfo {
            self.card.info()
        }
        fn granule(&self) -> Option<Bytes> {
            self.card.granule()
        }
        fn try_reserve(&self, size: Bytes) -> Option<RegionHandle> {
            self.alone(|| self.card.try_reserve(size))
        }
        fn commit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) -> bool {
            self.of_region(region, || self.card.commit(region, offset, size))
        }
        fn decommit(&self, region: &RegionHandle, offset: Bytes, size: Bytes) {
            self.of_region(region, || self.card.decommit(region, offset, size));
        }
    }

    fn allocator(device: &Arc<Strict>, config: &str) -> FlexAllocator {
        let config: FlexConfig = config.parse().unwrap();
        let device: Arc<dyn DeviceMemory> = device.clone();
        FlexAllocator::builder(device).config(config).build().unwrap()
    }

    fn with_streams(
        device: &Arc<Strict>,
        config: &str,
        events: Arc<dyn StreamEvents>,
    ) -> FlexAllocator {
        let config: FlexConfig = config.parse().unwrap();
        let device: Arc<dyn DeviceMemory> = device.clone();
        FlexAllocator::builder(device).config(config).events(events).build().unwrap()
    }

    /// Runs the closures as threads and waits for them.
    fn run(threads: Vec<Box<dyn FnOnce() + Send>>) {
        let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    /// Checks that everything was freed, and that the statistics agree.
    fn all_is_free(allocator: FlexAllocator, device: &Arc<Strict>) {
        allocator.synchronize();
        let stats = allocator.stats();
        for quantity in [Quantity::Allocation, Quantity::Active, Quantity::AllocatedBytes] {
            let stat = stats.get(quantity, Pool::All);
            assert_eq!((stat.current, stat.allocated), (0, stat.freed), "{quantity:?}");
        }
        allocator.trim();
        let info = device.info();
        assert_eq!(info.free, info.total, "nothing is left on the device");
        drop(allocator);
    }

    /// There is room for all requests, so none may be refused, even during a trim.
    #[test]
    fn allocate_free_and_trim() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[16MiB]");
            let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    for _ in 0..2 {
                        let block = allocator.allocate(mib(9)).expect("there is room for all");
                        assert_eq!(block.size(), mib(9));
                    }
                })
            };
            let trimmer = allocator.clone();
            run(vec![
                work(allocator.clone()),
                work(allocator.clone()),
                Box::new(move || {
                    trimmer.trim();
                    assert!(trimmer.stats().reserved() <= mib(64));
                    trimmer.trim();
                }),
            ]);
            all_is_free(allocator, &device);
        });
    }

    /// Regions are released as soon as they are idle, while threads need them.
    #[test]
    fn release_when_idle() {
        check(|| {
            let device = Strict::new(mib(48));
            let allocator = allocator(&device, "fallback_sizes:[16MiB],release:when_idle(0)");
            let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    for _ in 0..2 {
                        allocator.allocate(mib(10)).expect("there is room for all");
                    }
                })
            };
            run((0..3).map(|_| work(allocator.clone())).collect());
            let info = device.info();
            let regions = allocator.regions();
            assert_eq!(info.free, info.total, "the last one gave everything back: {regions:?}");
            all_is_free(allocator, &device);
        });
    }

    /// Blocks are freed by threads that did not allocate them, while others read the statistics.
    #[test]
    fn foreign_frees() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[16MiB],region:thread-home");
            let (to_right, from_left) = mpsc::channel::<Allocation>();
            let (to_left, from_right) = mpsc::channel::<Allocation>();
            let (left, right, third) = (allocator.clone(), allocator.clone(), allocator.clone());
            run(vec![
                Box::new(move || {
                    for _ in 0..2 {
                        to_right.send(left.allocate(mib(2)).unwrap()).unwrap();
                    }
                    drop(from_right.recv().unwrap());
                }),
                Box::new(move || {
                    to_left.send(right.allocate(mib(1)).unwrap()).unwrap();
                    for _ in 0..2 {
                        drop(from_left.recv().unwrap());
                    }
                }),
                Box::new(move || {
                    let stats = third.stats();
                    let allocated = stats.allocated();
                    let active = stats.get(Quantity::ActiveBytes, Pool::All).current;
                    assert!(allocated.get() <= active && active <= stats.reserved().get());
                    third.trim();
                }),
            ]);
            all_is_free(allocator, &device);
        });
    }

    /// Memory is committed and decommitted while blocks are allocated and freed.
    #[test]
    fn commit_and_shrink() {
        for config in ["growth:growable(32MiB)", "growth:recycle(32MiB)"] {
            let scenario = move || {
                let device = Strict::new(mib(16));
                let allocator = allocator(&device, config);
                let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                    Box::new(move || {
                        let first = allocator.allocate(mib(3)).expect("there is room for all");
                        let second = allocator.allocate(mib(1)).expect("there is room for all");
                        drop(first);
                        drop(second);
                    })
                };
                let third = allocator.clone();
                run(vec![
                    work(allocator.clone()),
                    work(allocator.clone()),
                    Box::new(move || {
                        third.trim();
                        let stats = third.stats();
                        let active = stats.get(Quantity::ActiveBytes, Pool::All).current;
                        assert!(active <= stats.reserved().get());
                    }),
                ]);
                all_is_free(allocator, &device);
            };
            shuttle::check_random(scenario, SCHEDULES);
            shuttle::check_pct(scenario, SCHEDULES, 3);
        }
    }

    /// Device memory is scarce: a commit fails and is undone while other threads search for room.
    #[test]
    fn commits_that_fail_leave_nothing() {
        check(|| {
            let device = Strict::new(mib(4));
            let allocator = allocator(&device, "growth:growable(32MiB)");
            let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    for _ in 0..2 {
                        drop(allocator.allocate(mib(3)));
                    }
                })
            };
            run(vec![work(allocator.clone()), work(allocator.clone())]);
            assert!(allocator.allocate(mib(3)).is_ok());
            all_is_free(allocator, &device);
        });
    }

    /// A block moves while its owner queries its address, pins it, leaks it and drops it.
    #[test]
    fn compaction_against_the_owner() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator =
                allocator(&device, "fallback_sizes:[8MiB],region:thread-home,max_regions:2");
            let low = allocator.allocate(mib(1)).unwrap();
            let high = allocator.allocate(mib(1)).unwrap();
            let leaked = allocator.allocate(mib(1)).unwrap();
            drop(low);
            let (first, second) = (allocator.clone(), allocator.clone());
            run(vec![
                Box::new(move || {
                    first.compact().commit();
                    first.compact().commit();
                }),
                Box::new(move || {
                    assert_eq!(high.size(), mib(1));
                    let pin = high.pin();
                    assert_eq!(pin.address(), high.address(), "a pinned block stays");
                    drop(pin);
                    drop(high);
                }),
                Box::new(move || {
                    let token = leaked.into_token();
                    assert!(second.address_of(token).is_ok());
                    second.free_token(token).unwrap();
                    assert!(second.free_token(token).is_err());
                }),
            ]);
            all_is_free(allocator, &device);
        });
    }

    /// A thread compacts in steps, while others free, pin and resize the blocks.
    #[test]
    fn steps_of_compaction_against_frees_and_pins() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[16MiB]");
            let mut blocks: Vec<_> = (0..6).map(|_| allocator.allocate(mib(2)).unwrap()).collect();
            let kept = blocks.split_off(3);
            let stepper = allocator.clone();
            run(vec![
                Box::new(move || {
                    for _ in 0..4 {
                        let step = stepper.compact_step(mib(3));
                        assert!(step.bytes() <= mib(3));
                        step.commit();
                    }
                }),
                Box::new(move || drop(blocks)),
                Box::new(move || {
                    let pin = kept[2].pin();
                    assert_eq!(pin.address(), kept[2].address());
                    let _ = kept[1].resize(mib(3));
                    kept[1].resize(mib(1)).expect("nothing prevents it");
                    drop(pin);
                    drop(kept);
                }),
            ]);
            all_is_free(allocator, &device);
        });
    }

    /// A pool is paused and resumed, while a thread allocates in the same granules and another frees a paused block.
    #[test]
    fn rest_against_requests_and_frees() {
        check(|| {
            let device = Strict::new(mib(16));
            let allocator = allocator(&device, "growth:growable(64MiB)");
            let tag = allocator.tag("weights").unwrap();
            let request = Request { tag, ..Request::new(mib(3)) };
            let mut weights: Vec<_> =
                (0..2).map(|_| allocator.allocate_for(&request).unwrap()).collect();
            let (gone, address) = (weights.pop(), weights[0].address());
            let (rester, guest) = (allocator.clone(), allocator.clone());
            run(vec![
                Box::new(move || {
                    rester.pause_tag(tag).expect("nothing is pinned");
                    rester.resume_tag(tag).expect("there is room for all");
                }),
                Box::new(move || {
                    for _ in 0..2 {
                        let block = guest.allocate(mib(1)).expect("there is room for all");
                        assert!(!block.is_paused());
                        let _ = block.resize(mib(3));
                    }
                }),
                Box::new(move || drop(gone)),
            ]);
            assert!(!weights[0].is_paused());
            assert_eq!(weights[0].address(), address);
            assert_eq!(allocator.stats().paused(), Bytes::ZERO);
            drop(weights);
            all_is_free(allocator, &device);
        });
    }

    /// A pin and its allocation are dropped in either order, on one thread or two, while another thread compacts. (The
    /// last pin of a freed block released the pin under one lock and the block under another, and compaction could move
    /// the block in between.)
    #[test]
    fn pins_that_outlive_their_allocations() {
        for pin_first in [false, true] {
            for two_threads in [false, true] {
                let scenario = move || drop_under_compaction(pin_first, two_threads);
                shuttle::check_random(scenario, SCHEDULES);
                shuttle::check_pct(scenario, SCHEDULES, 3);
            }
        }
    }

    fn drop_under_compaction(pin_first: bool, two_threads: bool) {
        let device = Strict::new(mib(64));
        let allocator = allocator(&device, "fallback_sizes:[8MiB]");
        let low = allocator.allocate(mib(1)).unwrap();
        let high = allocator.allocate(mib(1)).unwrap();
        drop(low);
        let compactor = allocator.clone();
        let drops = move || {
            let pin = high.pin();
            let (first, second): (Box<dyn Send>, Box<dyn Send>) = if pin_first {
                (Box::new(pin), Box::new(high))
            } else {
                (Box::new(high), Box::new(pin))
            };
            if two_threads {
                let other = thread::spawn(move || drop(first));
                drop(second);
                other.join().unwrap();
            } else {
                drop(first);
                drop(second);
            }
        };
        let compacts = move || {
            for _ in 0..2 {
                compactor.compact().commit();
            }
        };
        run(vec![Box::new(drops), Box::new(compacts)]);
        all_is_free(allocator, &device);
    }

    /// The entry of a released region is not reused while a launch holds it.
    #[test]
    fn launches_against_regions_that_come_and_go() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[16MiB]");
            let program = allocator.load_program(mib(1), 1).unwrap();
            let block = allocator.allocate(mib(12)).unwrap();
            let (launcher, other) = (allocator.clone(), allocator.clone());
            let launches = move || {
                for _ in 0..2 {
                    let launch = launcher.launch(&program, [&block]).expect("there is room");
                    thread::yield_now();
                    let now = launcher.segment_table();
                    let known = launch.segment_table().entries().iter().zip(now.entries());
                    let changed = known
                        .filter(|(known, now)| known.is_some() && now.is_some() && known != now);
                    assert_eq!(changed.count(), 0, "no entry changes under a launch");
                }
            };
            let regions = move || {
                for _ in 0..3 {
                    drop(other.allocate(mib(16)).expect("there is room"));
                    other.trim();
                }
            };
            run(vec![Box::new(launches), Box::new(regions)]);
            all_is_free(allocator, &device);
        });
    }

    /// Two concurrent plans, one of which is dropped.
    #[test]
    fn two_plans() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[8MiB]");
            let low = allocator.allocate(mib(1)).unwrap();
            let blocks: Vec<_> = (0..3).map(|_| allocator.allocate(mib(1)).unwrap()).collect();
            drop(low);
            let (first, second) = (allocator.clone(), allocator.clone());
            run(vec![
                Box::new(move || {
                    first.compact().commit();
                }),
                Box::new(move || {
                    drop(second.compact());
                    second.compact().commit();
                }),
            ]);
            let mut places: Vec<_> = blocks.iter().map(|block| block.address().offset).collect();
            places.sort();
            assert!(places.windows(2).all(|pair| pair[0] + mib(1) <= pair[1]), "{places:?}");
            drop(blocks);
            all_is_free(allocator, &device);
        });
    }

    /// Callbacks free blocks on the thread that runs out of memory while others allocate.
    #[test]
    fn pressure_under_contention() {
        check(|| {
            let device = Strict::new(mib(16));
            let allocator = allocator(&device, "fallback_sizes:[16MiB]");
            let cache = Arc::new(Mutex::new(vec![allocator.allocate(mib(8)).unwrap()]));
            let cached = Arc::clone(&cache);
            allocator.on_pressure(move |report| {
                assert_eq!(report.rounded, mib(7));
                let cached = std::mem::take(&mut *cached.lock().unwrap());
                drop(cached);
            });
            let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                Box::new(move || drop(allocator.allocate(mib(7)).expect("the cache makes room")))
            };
            run(vec![work(allocator.clone()), work(allocator.clone())]);
            cache.lock().unwrap().clear();
            all_is_free(allocator, &device);
        });
    }

    /// Ranges in use according to the events, and whether an event did not follow.
    #[derive(Default)]
    struct Watched {
        used: Mutex<BTreeMap<u64, Bytes>>,
        wrong: AtomicBool,
        ended: AtomicBool,
    }

    impl Watched {
        fn apply(&self, event: &Event) {
            let mut used = self.used.lock().unwrap();
            let follows = match event.action {
                Action::Alloc | Action::RoomReserved => {
                    used.insert(event.flat, event.size).is_none()
                }
                Action::FreeCompleted => used.remove(&event.flat) == Some(event.size),
                _ => true,
            };
            if !follows || self.ended.load(Ordering::SeqCst) {
                self.wrong.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Events arrive in one order, before the call that caused them returns, and never after the subscription's end.
    #[test]
    fn subscribers_are_called_in_order() {
        check(|| {
            let device = Strict::new(mib(16));
            let allocator = allocator(&device, "fallback_sizes:[16MiB]");
            let watched = Arc::new(Watched::default());
            let inside = Arc::clone(&watched);
            let subscription = allocator.subscribe(move |event| inside.apply(event));
            let work = |allocator: FlexAllocator| -> Box<dyn FnOnce() + Send> {
                let watched = Arc::clone(&watched);
                Box::new(move || {
                    let block = allocator.allocate(mib(1)).unwrap();
                    let used = watched.used.lock().unwrap().len();
                    assert!(used > 0 || watched.ended.load(Ordering::SeqCst), "{block:?} is known");
                    drop(block);
                })
            };
            let moving = allocator.clone();
            let compact = Box::new(move || drop(moving.compact().commit()));
            run(vec![work(allocator.clone()), work(allocator.clone()), compact]);
            assert!(watched.used.lock().unwrap().is_empty() && subscription.is_active());
            let ending = Arc::clone(&watched);
            let end = Box::new(move || {
                drop(subscription);
                ending.ended.store(true, Ordering::SeqCst);
            });
            let last = allocator.clone();
            run(vec![Box::new(move || drop(last.allocate(mib(1)))), end]);
            assert!(!watched.wrong.load(Ordering::SeqCst));
            all_is_free(allocator, &device);
        });
    }

    /// Both threads hold their blocks at the same time, so the peak is the sum of both, whatever the regions and the
    /// timing.
    #[test]
    fn peaks_are_exact() {
        check(|| peaks_are_exact_with("region:thread-home"));
        check(|| peaks_are_exact_with("region:load-balancing,acquire:eager(2)"));
    }

    fn peaks_are_exact_with(config: &str) {
        let device = Strict::new(mib(64));
        let allocator = allocator(&device, &format!("fallback_sizes:[8MiB],{config}"));
        let barrier = Arc::new(Barrier::new(2));
        let work = |allocator: FlexAllocator, size| -> Box<dyn FnOnce() + Send> {
            let barrier = Arc::clone(&barrier);
            Box::new(move || {
                let block = allocator.allocate(size).unwrap();
                barrier.wait();
                drop(block);
            })
        };
        run(vec![work(allocator.clone(), mib(2)), work(allocator.clone(), mib(3))]);
        let peak = allocator.stats().get(Quantity::AllocatedBytes, Pool::All).peak;
        assert_eq!(peak, 5 * MIB);
        all_is_free(allocator, &device);
    }

    /// Streams that pass an event when a thread waits for it or queries it for the second time. All earlier events of
    /// the stream pass with it.
    #[derive(Default)]
    struct Streams {
        /// Stream of every event, and whether it was queried.
        events: Mutex<Vec<(u32, bool)>>,
        /// Number of events that each stream has passed.
        passed: Mutex<BTreeMap<u32, u64>>,
        /// Whether a thread has waited.
        waited: AtomicBool,
    }

    impl Streams {
        fn pass(&self, event: EventId) {
            let stream = self.events.lock().unwrap()[event.0 as usize].0;
            let mut passed = self.passed.lock().unwrap();
            let passed = passed.entry(stream).or_default();
            *passed = (*passed).max(event.0 + 1);
        }
    }

    impl StreamEvents for Streams {
        fn record(&self, stream: u32) -> EventId {
            let mut events = self.events.lock().unwrap();
            events.push((stream, false));
            EventId(events.len() as u64 - 1)
        }
        fn is_complete(&self, event: EventId) -> bool {
            let (stream, asked) = {
                let mut events = self.events.lock().unwrap();
                let event = &mut events[event.0 as usize];
                (event.0, std::mem::replace(&mut event.1, true))
            };
            if asked {
                self.pass(event);
            }
            self.passed.lock().unwrap().get(&stream).is_some_and(|&passed| event.0 < passed)
        }
        fn wait(&self, event: EventId) {
            thread::yield_now();
            self.pass(event);
            self.waited.store(true, Ordering::SeqCst);
        }
    }

    /// A thread that uses a second stream has waited for the first, even while another thread waits.
    #[test]
    fn the_second_stream_waits_for_the_first() {
        check(|| {
            let device = Strict::new(mib(64));
            let streams = Arc::new(Streams::default());
            let events: Arc<dyn StreamEvents> = streams.clone();
            let allocator = with_streams(&device, "fallback_sizes:[16MiB]", events);
            drop(allocator.allocate(mib(1)).unwrap());
            let work = |allocator: FlexAllocator, stream| -> Box<dyn FnOnce() + Send> {
                let streams = Arc::clone(&streams);
                Box::new(move || {
                    let request = Request { stream, ..Request::new(mib(1)) };
                    let block = allocator.allocate_for(&request).unwrap();
                    assert!(stream == 0 || streams.waited.load(Ordering::SeqCst));
                    block.record_stream(9);
                    drop(block);
                })
            };
            run((0..3).map(|stream| work(allocator.clone(), stream)).collect());
            all_is_free(allocator, &device);
        });
    }

    /// Memory is scarce, and the remaining blocks wait for streams: a thread that needs memory waits for them as well.
    #[test]
    fn out_of_memory_waits_for_streams() {
        check(|| {
            let device = Strict::new(mib(8));
            let events: Arc<dyn StreamEvents> = Arc::new(Streams::default());
            let config = "fallback_sizes:[8MiB],region:thread-home,max_regions:2";
            let allocator = with_streams(&device, config, events);
            let blocks: Vec<_> = (0..2).map(|_| allocator.allocate(mib(4)).unwrap()).collect();
            let work = |allocator: FlexAllocator, block: Allocation| -> Box<dyn FnOnce() + Send> {
                Box::new(move || {
                    block.record_stream(5);
                    drop(block);
                    allocator.allocate(mib(4)).expect("a freed block is waited for");
                })
            };
            run(blocks.into_iter().map(|block| work(allocator.clone(), block)).collect());
            all_is_free(allocator, &device);
        });
    }

    /// Streams that run behind the host: work has a number on its stream, in the order of submission.
    #[derive(Default)]
    struct Behind {
        state: Mutex<BehindState>,
    }

    #[derive(Default)]
    struct BehindState {
        submitted: BTreeMap<u32, u64>,
        done: BTreeMap<u32, u64>,
        events: Vec<(u32, u64)>,
        /// Ranges of flat addresses that work accesses, with its stream and number.
        uses: Vec<(u64, u64, u32, u64)>,
    }

    impl BehindState {
        fn is_done(&self, stream: u32, work: u64) -> bool {
            self.done.get(&stream).copied().unwrap_or(0) >= work
        }
    }

    impl Behind {
        /// Submits work that accesses a new block, which no other stream may access any more.
        fn access(&self, block: &Allocation, stream: u32) {
            let (start, size) = (block.address().offset.get(), block.size().get());
            let state = self.state.lock().unwrap();
            for &(low, high, other, work) in &state.uses {
                let apart = high <= start || start + size <= low;
                let passed = other == stream || state.is_done(other, work);
                assert!(apart || passed, "stream {other} still accesses the block of {stream}");
            }
            drop(state);
            self.submit(block, stream);
        }

        /// Submits work of another stream that accesses a block.
        fn access_by(&self, block: &Allocation, stream: u32) {
            block.record_stream(stream);
            self.submit(block, stream);
        }

        fn submit(&self, block: &Allocation, stream: u32) {
            let (start, size) = (block.address().offset.get(), block.size().get());
            let mut state = self.state.lock().unwrap();
            let work = state.submitted.entry(stream).or_default();
            *work += 1;
            let work = *work;
            state.uses.push((start, start + size, stream, work));
        }

        fn advance(&self, stream: u32) {
            let mut state = self.state.lock().unwrap();
            let submitted = state.submitted.get(&stream).copied().unwrap_or(0);
            let done = state.done.entry(stream).or_default();
            *done = submitted.min(*done + 1);
        }
    }

    impl StreamEvents for Behind {
        fn record(&self, stream: u32) -> EventId {
            let mut state = self.state.lock().unwrap();
            let work = state.submitted.get(&stream).copied().unwrap_or(0);
            state.events.push((stream, work));
            EventId(state.events.len() as u64 - 1)
        }
        fn is_complete(&self, event: EventId) -> bool {
            let state = self.state.lock().unwrap();
            let (stream, work) = state.events[event.0 as usize];
            state.is_done(stream, work)
        }
        fn wait(&self, event: EventId) {
            thread::yield_now();
            let mut state = self.state.lock().unwrap();
            let (stream, work) = state.events[event.0 as usize];
            let done = state.done.entry(stream).or_default();
            *done = work.max(*done);
        }
    }

    /// Streams on several threads share one region, which is too small for all. No stream gets a range that another may
    /// still access, whoever frees, polls and waits when.
    #[test]
    fn streams_take_ranges_in_order() {
        check(|| {
            let device = Strict::new(mib(8));
            let streams = Arc::new(Behind::default());
            let events: Arc<dyn StreamEvents> = streams.clone();
            let allocator = with_streams(&device, "fallback_sizes:[8MiB],block:best-fit", events);
            let work = |allocator: FlexAllocator, stream| -> Box<dyn FnOnce() + Send> {
                let streams = Arc::clone(&streams);
                Box::new(move || {
                    for size in [3, 2, 4] {
                        let request = Request { stream, ..Request::new(mib(size)) };
                        let Ok(block) = allocator.allocate_for(&request) else { continue };
                        streams.access(&block, stream);
                        if size == 2 {
                            streams.access_by(&block, 9);
                        }
                        drop(block);
                    }
                })
            };
            let advance = |stream| -> Box<dyn FnOnce() + Send> {
                let streams = Arc::clone(&streams);
                Box::new(move || (0..3).for_each(|_| streams.advance(stream)))
            };
            let mut threads: Vec<_> =
                (0..2).map(|stream| work(allocator.clone(), stream)).collect();
            threads.push(advance(0));
            threads.push(advance(9));
            run(threads);
            all_is_free(allocator, &device);
        });
    }

    /// The last block of a stream is dropped with its allocator, while the stream may still access it.
    #[test]
    fn a_region_is_released_when_its_streams_have_passed() {
        check(|| {
            let device = Strict::new(mib(16));
            let streams = Arc::new(Behind::default());
            let events: Arc<dyn StreamEvents> = streams.clone();
            let allocator = with_streams(&device, "fallback_sizes:[8MiB]", events);
            let blocks: Vec<_> = (0..3)
                .map(|stream| {
                    let request = Request { stream, ..Request::new(mib(2)) };
                    let block = allocator.allocate_for(&request).unwrap();
                    streams.access(&block, stream);
                    block
                })
                .collect();
            let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
            for block in blocks {
                threads.push(Box::new(move || drop(block)));
            }
            threads.push(Box::new(move || drop(allocator)));
            run(threads);
            let info = device.info();
            assert_eq!(info.free, info.total, "the last one gave everything back");
            let state = streams.state.lock().unwrap();
            let passed = |&(_, _, stream, work): &(u64, u64, u32, u64)| state.is_done(stream, work);
            assert!(state.uses.iter().all(passed), "no stream accesses a released region");
        });
    }

    /// The allocator is dropped while its last blocks are dropped on other threads.
    #[test]
    fn everybody_leaves_at_once() {
        check(|| {
            let device = Strict::new(mib(64));
            let allocator = allocator(&device, "fallback_sizes:[8MiB],region:thread-home");
            let first = allocator.allocate(mib(5)).unwrap();
            let second = allocator.allocate(mib(5)).unwrap();
            run(vec![
                Box::new(move || drop(first)),
                Box::new(move || drop(second)),
                Box::new(move || drop(allocator)),
            ]);
            let info = device.info();
            assert_eq!(info.free, info.total, "the last one gave everything back");
        });
    }

    /// Two threads allocate from one pool under one hard budget, which holds one block. Each drops its handle to the pool
    /// while its block is live.
    #[test]
    fn a_budget_holds_and_a_dropped_pool_releases_its_region() {
        check(|| {
            let device = Strict::new(mib(8));
            let allocator = allocator(&device, "fallback_sizes:[4MiB]");
            let tag = allocator.tag("cache").unwrap();
            let budget = Budget { hard: Some(mib(3)), soft: Some(mib(1)) };
            allocator.set_budget(tag, budget).unwrap();
            let pool = allocator.pool(PoolSpec::new("phase").limit(mib(4)));
            let threads = [pool.clone(), pool].map(|pool| -> Box<dyn FnOnce() + Send> {
                let allocator = allocator.clone();
                Box::new(move || {
                    let request = Request { tag, ..Request::new(mib(2)) };
                    let block = pool.allocate_for(&request);
                    let refused = matches!(block, Err(AllocateError::Budget(_)));
                    assert!(block.is_ok() || refused, "{:?}", block.err());
                    assert!(allocator.tag_report(tag).unwrap().allocated <= mib(3));
                    drop(pool);
                    drop(block);
                })
            });
            run(threads.into());
            let report = allocator.tag_report(tag).unwrap();
            assert_eq!((report.allocated, report.blocks), (Bytes::ZERO, 0));
            assert!(report.peak >= mib(2) && report.peak <= mib(3));
            assert_eq!(device.info().free, mib(8), "the region was released");
            assert_eq!(allocator.pools().len(), 1);
            drop(allocator.allocate(mib(4)).expect("the default pool can have the memory"));
        });
    }
}
