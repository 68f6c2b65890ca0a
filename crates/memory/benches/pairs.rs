//! Pairs of an allocation and a free, to be counted in instructions: `scripts/instructions` prints the table.
//!
//! `pairs ROW COUNT` runs one row of the table with COUNT pairs on one thread, with 1,000 live blocks of 128 B to 256 KiB
//! and best fit.

#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a bench prints, and draws small numbers"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{EventId, FlexAllocator, StreamEvents};
use cubeyard_memory::index::{Fit, FreeIndex};
use cubeyard_memory::policy::Request;

const LIVE: usize = 1000;

/// A row of the table: its name, and the function that runs a number of pairs.
type Row = (&'static str, fn(u64));

const ROWS: [Row; 7] = [
    ("index", index),
    ("one-region", |count| whole("max_regions:1", 0, count)),
    ("two-streams", |count| whole("max_regions:1", 2, count)),
    ("two-streams-behind", behind),
    ("12-regions", |count| {
        whole("max_regions:12,acquire:eager(12),fallback_sizes:[64MiB]", 0, count);
    }),
    ("64-regions", |count| {
        whole("max_regions:64,acquire:eager(64),fallback_sizes:[64MiB]", 0, count);
    }),
    ("history", |count| whole("max_regions:1,history:1000", 0, count)),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|text| text != "--bench").collect();
    let [row, count] = &arguments[..] else {
        println!("{}", ROWS.map(|(name, _)| name).join("\n"));
        return;
    };
    let (_, run) = ROWS.iter().find(|(name, _)| name == row).expect("a row of the table");
    run(count.parse().expect("a number of pairs"));
}

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a size of 128 B to 256 KiB; small sizes are as frequent as large ones.
    fn size(&mut self) -> Bytes {
        let octave = 7 + self.next() % 11;
        Bytes::new((1 << octave) + self.next() % (1 << octave))
    }

    fn slot(&mut self) -> usize {
        (self.next() % LIVE as u64) as usize
    }
}

fn index(count: u64) {
    let mut random = Random(1);
    let mut index = FreeIndex::new(Bytes::gib(1), Bytes::new(128));
    let place = |index: &mut FreeIndex, random: &mut Random| {
        index.allocate(Fit::Best, random.size(), 0).expect("there is room").key
    };
    let mut live: Vec<_> = (0..LIVE).map(|_| place(&mut index, &mut random)).collect();
    for _ in 0..count {
        let slot = random.slot();
        index.free(live[slot]).expect("the block is live");
        live[slot] = place(&mut index, &mut random);
    }
}

/// Streams whose work is done as soon as it is submitted, or never.
#[derive(Default)]
struct Streams {
    events: AtomicU64,
    behind: bool,
}

impl StreamEvents for Streams {
    fn record(&self, _stream: u32) -> EventId {
        EventId(self.events.fetch_add(1, Ordering::Relaxed))
    }
    fn is_complete(&self, _event: EventId) -> bool {
        !self.behind
    }
    fn wait(&self, _event: EventId) {}
}

fn whole(config: &str, streams: u32, count: u64) {
    pairs(config, streams, Streams::default(), count);
}

fn behind(count: u64) {
    pairs("max_regions:1", 2, Streams { behind: true, ..Streams::default() }, count);
}

fn pairs(config: &str, streams: u32, events: Streams, count: u64) {
    let mut random = Random(1);
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(12))));
    let mut builder = FlexAllocator::builder(card);
    if streams > 0 {
        builder = builder.events(Arc::new(events));
    }
    let config = format!("fallback_sizes:[1GiB],block:best-fit,{config}");
    let allocator = builder.config(config.parse().expect("a configuration")).build();
    let allocator = allocator.expect("the card has the memory");
    let place = |random: &mut Random| {
        let size = random.size();
        let stream = if streams > 0 { random.next() as u32 % streams } else { 0 };
        allocator.allocate_for(&Request { stream, ..Request::new(size) }).expect("there is room")
    };
    let mut live: Vec<_> = (0..LIVE).map(|_| Some(place(&mut random))).collect();
    for _ in 0..count {
        let slot = random.slot();
        live[slot] = None;
        live[slot] = Some(place(&mut random));
    }
}
