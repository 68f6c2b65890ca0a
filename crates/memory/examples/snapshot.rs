//! Writes snapshots of two allocators, one with fixed regions and one with growable ones, for
//! PyTorch's memory viewer: `cargo run --example snapshot -- FOLDER`.
//!
//! For each allocator, `NAME.pickle` is the snapshot and `NAME.json` the statistics of the same moment.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cubeyard_memory::Bytes;
use cubeyard_memory::device::{Card, CardSpec};
use cubeyard_memory::flex::{EventId, FlexAllocator, StreamEvents};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: snapshot FOLDER")?);
    fs::create_dir_all(&folder)?;
    fixed(&folder)?;
    growable(&folder)
}

/// Regions of fixed size: several regions with small and large blocks, a block that waits for a stream, a released
/// region, and a request that found no room.
fn fixed(folder: &Path) -> Result<(), Box<dyn Error>> {
    let card = Arc::new(Card::new(CardSpec::virtual_function(Bytes::mib(192), 8)));
    let streams = Arc::new(SlowStreams::default());
    let allocator = FlexAllocator::builder(card)
        .config("fallback_sizes:[64MiB;32MiB],region:fill-first,history:10000".parse()?)
        .events(Arc::clone(&streams) as Arc<dyn StreamEvents>)
        .build()?;

    let first = allocator.allocate(Bytes::mib(40))?;
    let _second = allocator.allocate(Bytes::mib(48))?;
    let small: Vec<_> =
        (1..40).map(|size| allocator.allocate(Bytes::new(100 * size))).collect::<Result<_, _>>()?;
    let activation = allocator.allocate(Bytes::mib(12))?;
    let third = allocator.allocate(Bytes::mib(60))?;
    if let Err(error) = allocator.allocate(Bytes::mib(50)) {
        writeln!(std::io::stderr(), "{error}")?;
    }
    drop(third);
    allocator.trim();
    let small: Vec<_> = small.into_iter().step_by(3).collect();
    activation.record_stream(7);
    drop(activation);
    drop(first);
    write(&allocator, folder, "fixed")?;
    streams.all_passed.store(true, Ordering::Relaxed);
    drop(small);
    Ok(())
}

/// A growable region: memory is committed in granules, decommitted by `trim` and used elsewhere.
fn growable(folder: &Path) -> Result<(), Box<dyn Error>> {
    let card = Arc::new(Card::new(CardSpec::physical(Bytes::mib(256))));
    let config = "growth:recycle(1GiB),history:10000".parse()?;
    let allocator = FlexAllocator::builder(card).config(config).build()?;

    let mut blocks = Vec::new();
    for step in 0..12 {
        blocks.push(allocator.allocate(Bytes::mib(5 + step))?);
        blocks.push(allocator.allocate(Bytes::new(3000 * (step + 1)))?);
        if step % 3 == 2 {
            drop(blocks.remove(0));
        }
        if step == 5 {
            allocator.trim();
        }
    }
    if let Err(error) = allocator.allocate(Bytes::mib(200)) {
        writeln!(std::io::stderr(), "{error}")?;
    }
    write(&allocator, folder, "growable")
}

fn write(allocator: &FlexAllocator, folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let mut file = BufWriter::new(File::create(folder.join(format!("{name}.pickle")))?);
    allocator.snapshot().write_pickle(0, &mut file)?;
    file.flush()?;
    fs::write(folder.join(format!("{name}.json")), allocator.stats().to_json())?;
    Ok(())
}

/// Streams that pass an event only when it is waited for, or when all of them are completed at once.
#[derive(Debug, Default)]
struct SlowStreams {
    all_passed: AtomicBool,
}

impl StreamEvents for SlowStreams {
    fn record(&self, _stream: u32) -> EventId {
        self.all_passed.store(false, Ordering::Relaxed);
        EventId(0)
    }

    fn is_complete(&self, _event: EventId) -> bool {
        self.all_passed.load(Ordering::Relaxed)
    }

    fn wait(&self, _event: EventId) {
        self.all_passed.store(true, Ordering::Relaxed);
    }
}
