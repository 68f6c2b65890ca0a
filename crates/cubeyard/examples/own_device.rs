//! An allocator under a device of one's own: regions, blocks, two streams, a report when memory runs out, statistics.
//!
//! `cargo run -p cubeyard --example own_device`; `docs/tutorials/allocator.md` goes through it.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use cubeyard::memory::{
    AddressMode, AllocateError, Allocation, Bytes, DeviceMemory, EventId, FlexAllocator,
    MemoryInfo, RegionHandle, RegionId, Request, StreamEvents, VirtualAddress,
};

/// Stream of the kernels.
const COMPUTE: u32 = 0;
/// Stream of the copies to the host.
const COPY: u32 = 1;

/// A device with 64 MiB: the memory of each region by its address. A driver would return addresses of the card.
#[derive(Debug, Default)]
struct OwnDevice(Mutex<BTreeMap<u64, Vec<u8>>>);

impl OwnDevice {
    const TOTAL: Bytes = Bytes::mib(64);

    fn regions<T>(&self, read: impl FnOnce(&mut BTreeMap<u64, Vec<u8>>) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies bytes of a block to its new place; returns `None` if either range has no memory.
    fn copy(&self, from: VirtualAddress, to: VirtualAddress, size: Bytes) -> Option<()> {
        let bytes = |at: VirtualAddress| {
            let start = usize::try_from(at.offset.get()).ok()?;
            Some(start..start + usize::try_from(size.get()).ok()?)
        };
        self.regions(|regions| {
            let data = regions.get(&from.region_id.get())?.get(bytes(from)?)?.to_vec();
            let region = regions.get_mut(&to.region_id.get())?;
            region.get_mut(bytes(to)?)?.copy_from_slice(&data);
            Some(())
        })
    }
}

impl DeviceMemory for OwnDevice {
    fn mode(&self) -> AddressMode {
        AddressMode::Physical // the id of a region is its address
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        if size > self.info().free {
            return None; // a refusal, not an error: the allocator tries a smaller size
        }
        let memory = vec![0; usize::try_from(size.get()).ok()?];
        let address = self.regions(|regions| {
            let address = regions.keys().last().map_or(0, |last| last + (1 << 32));
            regions.insert(address, memory);
            address
        });
        Some(RegionHandle { id: RegionId::new(address), size })
    }

    fn release(&self, region: RegionHandle) {
        self.regions(|regions| regions.remove(&region.id.get()));
    }

    fn info(&self) -> MemoryInfo {
        let used = self.regions(|regions| regions.values().map(Vec::len).sum::<usize>());
        MemoryInfo { free: Self::TOTAL - Bytes::new(used as u64), total: Self::TOTAL }
    }
}

/// Number of launches submitted to each stream, and of those that are finished.
#[derive(Debug, Default)]
struct Work {
    submitted: [u64; 2],
    finished: [u64; 2],
}

/// The streams of the device. A driver has these three functions under other names.
#[derive(Debug, Default)]
struct OwnStreams(Mutex<Work>);

impl OwnStreams {
    fn work<T>(&self, read: impl FnOnce(&mut Work) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Submits a launch; it finishes later.
    fn submit(&self, stream: u32) {
        self.work(|work| work.submitted[stream as usize] += 1);
    }

    /// Finishes all launches of a stream.
    fn finish(&self, stream: u32) {
        self.work(|work| work.finished[stream as usize] = work.submitted[stream as usize]);
    }
}

/// An event is a stream, 0 or 1, and the number of launches that were submitted to it.
impl StreamEvents for OwnStreams {
    fn record(&self, stream: u32) -> EventId {
        self.work(|work| EventId(work.submitted[stream as usize] * 2 + u64::from(stream)))
    }

    fn is_complete(&self, event: EventId) -> bool {
        self.work(|work| work.finished[stream_of(event) as usize] >= event.0 / 2)
    }

    fn wait(&self, event: EventId) {
        self.finish(stream_of(event)); // a driver blocks here
    }
}

fn stream_of(event: EventId) -> u32 {
    if event.0.is_multiple_of(2) { COMPUTE } else { COPY }
}

/// Returns a request of the stream of the kernels.
fn tensor(size: Bytes) -> Request {
    Request { stream: COMPUTE, ..Request::new(size) }
}

/// Frees a block that the copy stream still reads, and allocates another one.
fn two_streams(
    allocator: &FlexAllocator,
    streams: &OwnStreams,
    out: &mut impl Write,
) -> Result<Allocation, Box<dyn Error>> {
    let result = allocator.allocate_for(&tensor(Bytes::mib(8)))?;
    let place = result.address();
    streams.submit(COPY); // the copy of the result to the host
    result.record_stream(COPY);
    drop(result);
    let next = allocator.allocate_for(&tensor(Bytes::mib(8)))?;
    writeln!(out, "while the copy runs: reused {}", next.address() == place)?;
    drop(next);
    streams.finish(COPY);
    let next = allocator.allocate_for(&tensor(Bytes::mib(8)))?;
    writeln!(out, "after the copy:      reused {}", next.address() == place)?;
    Ok(next)
}

/// Moves blocks together, so that free ranges become one: the allocator plans, the device copies, the blocks follow.
fn compact(allocator: &FlexAllocator, device: &OwnDevice, out: &mut impl Write) -> io::Result<()> {
    let plan = allocator.compact();
    for step in plan.moves() {
        device.copy(step.from, step.to, step.size).expect("a live block has memory");
    }
    writeln!(out, "moved {} blocks", plan.commit())
}

/// Prints what the steps of the page print. With `exercise`, memory that is fragmented is compacted.
pub(crate) fn run(exercise: bool, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let (device, streams) = (Arc::new(OwnDevice::default()), Arc::new(OwnStreams::default()));
    let allocator = FlexAllocator::builder(Arc::clone(&device) as Arc<dyn DeviceMemory>)
        .config("fallback_sizes:[32MiB;16MiB]".parse()?)
        .events(Arc::clone(&streams) as Arc<dyn StreamEvents>)
        .build()?;

    let weights = allocator.allocate_for(&tensor(Bytes::new(12_000_000)))?;
    writeln!(out, "weights at {}: {}", weights.address(), weights.size())?;
    let result = two_streams(&allocator, &streams, out)?;

    // Every other block is freed: much is free, but not 12 MiB in one piece.
    let blocks = (0..9).map(|_| allocator.allocate_for(&tensor(Bytes::mib(4))));
    let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
    let kept: Vec<_> = blocks.into_iter().step_by(2).collect();
    match allocator.allocate_for(&tensor(Bytes::mib(12))) {
        Err(AllocateError::OutOfMemory(report)) => writeln!(out, "{report}")?,
        other => drop(other?),
    }
    if exercise {
        compact(&allocator, &device, out)?;
        let block = allocator.allocate_for(&tensor(Bytes::mib(12)))?;
        writeln!(out, "12 MiB at {}", block.address())?;
    }

    drop((weights, result, kept));
    writeln!(out, "given back: {}", allocator.trim())?;
    let statistics = allocator.stats();
    for key in ["allocated_bytes.all.peak", "reserved_bytes.all.peak", "num_ooms"] {
        writeln!(out, "{key} {}", statistics.key(key).unwrap_or_default())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let exercise = std::env::args().nth(1).as_deref() == Some("--exercise");
    run(exercise, &mut io::stdout().lock())
}
