//! Any bytes as calls to an index and to a Flex allocator: offsets equal the naive list's, and all counts are right
//! after every call.

#![no_main]

use std::sync::Arc;

use cubeyard_memory::Bytes;
use cubeyard_memory::conformance::Naive;
use cubeyard_memory::device::{Card, CardSpec, DeviceMemory, Fault, Faulty};
use cubeyard_memory::flex::{Allocation, BlockState, FlexAllocator, FlexConfig};
use cubeyard_memory::index::{Block, Fit, FreeIndex};
use cubeyard_memory::policy::{self, Kind, Request};
use cubeyard_memory::stats::{Pool, Quantity};
use libfuzzer_sys::fuzz_target;

/// Numbers from the input; zeros after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Reads a size in any octave up to `bits`.
    fn size(&mut self, bits: u32) -> u64 {
        let raw = u64::from_le_bytes(std::array::from_fn(|_| self.byte()));
        let bits = u32::from(self.byte()) % bits;
        1 + raw % (1 << bits)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    if input.byte() % 2 == 0 { index(&mut input) } else { flex(&mut input) }
});

fn index(input: &mut Input<'_>) {
    let mut index = FreeIndex::new(Bytes::new(1 << 16), Bytes::new(1));
    let mut naive = Naive::new(1 << 16);
    let mut live: Vec<Block> = Vec::new();
    let mut best = false;
    while !input.0.is_empty() {
        let choice = input.byte();
        let fit = [Fit::First, Fit::Best, Fit::Last][usize::from(choice >> 4) % 3];
        if fit == Fit::Best && choice % 8 < 4 && !best {
            // The first best fit of a history forgets which of equal ranges came when.
            best = true;
            index.find(Fit::Best, Bytes::new(1), Bytes::new(1));
            naive.forget_order();
        }
        let placed = match choice % 8 {
            0..3 => {
                let size = input.size(16);
                (index.allocate(fit, Bytes::new(size), 0), naive.allocate(fit, size, 1))
            }
            3 => {
                let (size, align) = (input.size(14), 1 << (input.byte() % 10));
                let ours = index.allocate_aligned(fit, Bytes::new(size), Bytes::new(align), 0);
                (ours, naive.allocate(fit, size, align))
            }
            4 => {
                let (at, size) = (input.size(17), input.size(12));
                let ours = index.allocate_at(Bytes::new(at), Bytes::new(size), 0);
                (ours, naive.take(at, size).then_some(at))
            }
            5 if index.capacity() < Bytes::mib(1) => {
                let by = input.size(12);
                naive.free(index.capacity().get(), by);
                index.grow(Bytes::new(by));
                (None, None)
            }
            _ => {
                if !live.is_empty() {
                    let block = live.swap_remove(usize::from(input.byte()) % live.len());
                    assert_eq!(index.free(block.key), Ok(block));
                    assert!(index.free(block.key).is_err());
                    naive.free(block.offset.get(), block.size.get());
                }
                (None, None)
            }
        };
        assert_eq!(placed.0.map(|block| block.offset.get()), placed.1);
        live.extend(placed.0);
        assert_eq!(index.free_bytes(), naive.free_bytes());
        assert_eq!(index.largest().get(), naive.largest());
    }
}

fn config(input: &mut Input<'_>) -> FlexConfig {
    let mut config = FlexConfig::default();
    let choice = usize::from(input.byte());
    config.region = policy::REGION[choice % policy::REGION.len()];
    config.block = policy::BLOCK[choice / 8 % policy::BLOCK.len()];
    let growth = ["fixed", "growable(32MiB)", "recycle(32MiB)"][usize::from(input.byte()) % 3];
    config.set("growth", growth).unwrap();
    config.set("fallback_sizes", "[8MiB;3MiB;1000000]").unwrap();
    config.max_regions = 1 + usize::from(input.byte()) % 5;
    let release = ["never", "when_idle(0)", "when_idle(4MiB)"][usize::from(input.byte()) % 3];
    config.set("release", release).unwrap();
    config.set("acquire", ["lazy", "first", "eager(2)"][usize::from(input.byte()) % 3]).unwrap();
    if input.byte() % 2 == 0 {
        config.set("own_regions", "[program]").unwrap();
    }
    config.history = usize::from(input.byte());
    config
}

fn flex(input: &mut Input<'_>) {
    let memory = Bytes::mib(1 + u64::from(input.byte()) % 32);
    let card = Arc::new(Faulty::new(Card::new(CardSpec::physical(memory))));
    let builder = FlexAllocator::builder(card.clone()).config(config(input));
    let allocator = builder.build().expect("the configuration is a right one");
    let mut live: Vec<Allocation> = Vec::new();
    let mut tokens = Vec::new();
    while !input.0.is_empty() {
        match input.byte() % 16 {
            0..6 => {
                let size = Bytes::new(input.size(25));
                let alignment = Bytes::new(1 << (input.byte() % 24));
                let kind = Kind::ALL[usize::from(input.byte()) % 3];
                let request = Request { alignment, kind, ..Request::new(size) };
                if let Ok(block) = allocator.allocate_for(&request) {
                    assert!(block.address().offset.is_aligned(alignment));
                    live.push(block);
                }
            }
            6..11 if !live.is_empty() => {
                drop(live.swap_remove(usize::from(input.byte()) % live.len()));
            }
            11 if !live.is_empty() => {
                let block = live.swap_remove(usize::from(input.byte()) % live.len());
                tokens.push(block.into_token());
            }
            12 if !tokens.is_empty() => {
                let token = tokens.swap_remove(usize::from(input.byte()) % tokens.len());
                let address = allocator.address_of(token).expect("it is live");
                if input.byte() % 2 == 0 {
                    allocator.free_token(token).expect("it is live");
                } else {
                    allocator.deallocate(address).expect("it is live");
                }
                assert!(allocator.free_token(token).is_err());
            }
            13 => drop(allocator.trim()),
            14 => {
                let pins: Vec<_> = live.iter().step_by(3).map(Allocation::pin).collect();
                let plan = allocator.compact();
                if input.byte() % 4 > 0 {
                    plan.commit();
                }
                pins.iter().zip(live.iter().step_by(3)).for_each(|(pin, block)| {
                    assert_eq!(pin.address(), block.address(), "a pinned block stays");
                });
            }
            15 => {
                let call = usize::from(input.byte() % 4);
                card.fail(if input.byte() % 2 == 0 { Fault::Once(call) } else { Fault::Never });
            }
            _ => {}
        }
        books(&allocator, &live, tokens.len(), &card.info().free, memory);
    }
    drop(live);
    tokens.into_iter().for_each(|token| allocator.free_token(token).expect("it is live"));
    allocator.trim();
    assert_eq!(card.info().free, memory);
}

fn books(allocator: &FlexAllocator, live: &[Allocation], leaked: usize, free: &Bytes, all: Bytes) {
    let stats = allocator.stats();
    let current = |quantity| stats.get(quantity, Pool::All).current;
    assert_eq!(current(Quantity::Allocation), (live.len() + leaked) as u64);
    assert_eq!(stats.reserved(), all - *free);
    assert!(current(Quantity::AllocatedBytes) <= current(Quantity::ActiveBytes));
    assert!(current(Quantity::ActiveBytes) <= current(Quantity::ReservedBytes));
    let mut allocated = 0;
    for segment in allocator.snapshot().segments {
        let mut end = segment.address;
        let mut after_free = false;
        for block in segment.blocks {
            assert_eq!(block.address, end);
            end += block.size.get();
            let is_free = block.state == BlockState::Inactive;
            assert!(!(is_free && after_free), "no two free parts touch");
            after_free = is_free;
            allocated += if is_free { 0 } else { block.size.get() };
        }
        assert_eq!(end, segment.address + segment.total_size.get());
    }
    assert_eq!(current(Quantity::ActiveBytes), allocated);
    let mut places: Vec<_> = live.iter().map(|block| (block.address(), block.size())).collect();
    places.sort_unstable();
    assert!(places.windows(2).all(|pair| {
        pair[0].0.region_id != pair[1].0.region_id
            || pair[0].0.offset + pair[0].1 <= pair[1].0.offset
    }));
}
