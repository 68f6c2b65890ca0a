//! A backend that embeds the allocator: its own device and streams, a cache that is evicted on demand, a launch, a
//! request that fails, and a snapshot.
//!
//! `cargo run -p cubeyard --example embed -- [SNAPSHOT]`; `docs/memory.md` and
//! `docs/memory-rules.md` explain it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use cubeyard::memory::{
    AddressMode, AllocateError, Allocation, Bytes, DeviceMemory, EventId, FlexAllocator,
    HostMemory, MemoryInfo, Program, RegionHandle, RegionId, Request, StreamEvents, TableInfo,
    VirtualAddress,
};

/// Stream of the kernels, followed by the stream that copies results to the host.
const COMPUTE: u32 = 0;
const COPY: u32 = 1;

/// The device: a virtual function. Its programs name a region by its index in a table of eight entries.
#[derive(Debug)]
struct ToyCard {
    memory: HostMemory,
    table: Mutex<[Option<RegionHandle>; 8]>,
}

impl ToyCard {
    fn new(memory: Bytes) -> Self {
        Self { memory: HostMemory::new(memory), table: Mutex::new([const { None }; 8]) }
    }

    /// Copies from the host; returns whether that range has memory.
    fn write(&self, to: VirtualAddress, data: &[u8]) -> bool {
        let region = self.host_region(to);
        region.and_then(|region| self.memory.write(region, to.offset, data)).is_some()
    }

    /// Copies a range to the host; returns `None` if the range has no memory.
    fn read(&self, from: VirtualAddress, size: Bytes) -> Option<Vec<u8>> {
        let length = usize::try_from(size.get()).ok()?;
        self.memory.read(self.host_region(from)?, from.offset, length)
    }

    fn host_region(&self, address: VirtualAddress) -> Option<RegionId> {
        let entry = usize::try_from(address.region_id.get()).ok()?;
        let table = self.table.lock().expect("nobody panics with it");
        table.get(entry)?.as_ref().map(|region| region.id)
    }
}

/// The minimal device interface of an allocator. A device that can commit memory in granules implements four more
/// functions.
impl DeviceMemory for ToyCard {
    fn mode(&self) -> AddressMode {
        AddressMode::Virtual
    }

    fn try_acquire(&self, size: Bytes) -> Option<RegionHandle> {
        let mut table = self.table.lock().expect("nobody panics with it");
        let entry = table.iter().position(Option::is_none)?;
        table[entry] = Some(self.memory.try_acquire(size)?);
        Some(RegionHandle { id: RegionId::new(entry as u64), size })
    }

    fn release(&self, region: RegionHandle) {
        let entry = usize::try_from(region.id.get()).expect("it was a place in the table");
        let held = self.table.lock().expect("nobody panics with it")[entry].take();
        self.memory.release(held.expect("the allocator gives a region back once"));
    }

    fn info(&self) -> MemoryInfo {
        self.memory.info()
    }

    fn table(&self) -> Option<TableInfo> {
        let table = self.table.lock().expect("nobody panics with it");
        let free = table.iter().filter(|entry| entry.is_none()).count();
        Some(TableInfo { entries: table.len(), free })
    }

    fn physical_address(&self, region: RegionId) -> Option<u64> {
        let table = self.table.lock().expect("nobody panics with it");
        let entry = table.get(usize::try_from(region.get()).ok()?)?.as_ref()?;
        Some(entry.id.get())
    }
}

/// The streams: for each, the amount of submitted work and of finished work.
#[derive(Debug, Default)]
struct Streams(Mutex<BTreeMap<u32, (u32, u32)>>);

impl Streams {
    fn submit(&self, stream: u32) {
        self.0.lock().expect("nobody panics with it").entry(stream).or_default().0 += 1;
    }

    fn finish(&self, stream: u32) {
        let mut streams = self.0.lock().expect("nobody panics with it");
        let (given, done) = streams.entry(stream).or_default();
        *done = *given;
    }
}

/// An event is a stream and the amount of work submitted to it so far.
impl StreamEvents for Streams {
    fn record(&self, stream: u32) -> EventId {
        let streams = self.0.lock().expect("nobody panics with it");
        let given = streams.get(&stream).map_or(0, |(given, _)| *given);
        EventId(u64::from(stream) << 32 | u64::from(given))
    }

    fn is_complete(&self, event: EventId) -> bool {
        let streams = self.0.lock().expect("nobody panics with it");
        let stream = u32::try_from(event.0 >> 32).expect("32 bits are left");
        streams.get(&stream).is_none_or(|(_, done)| u64::from(*done) >= event.0 & 0xffff_ffff)
    }

    fn wait(&self, event: EventId) {
        self.finish(u32::try_from(event.0 >> 32).expect("32 bits are left"));
    }
}

/// Blocks that are kept for reuse.
type Cache = Arc<Mutex<Vec<Allocation>>>;

/// The interface to the rest of the program.
struct Backend {
    card: Arc<ToyCard>,
    streams: Arc<Streams>,
    allocator: FlexAllocator,
    cache: Cache,
}

impl Backend {
    fn new(memory: Bytes, config: &str) -> Result<Self, Box<dyn Error>> {
        let card = Arc::new(ToyCard::new(memory));
        let streams = Arc::new(Streams::default());
        let allocator = FlexAllocator::builder(Arc::clone(&card) as Arc<dyn DeviceMemory>)
            .config(config.parse()?)
            .events(Arc::clone(&streams) as Arc<dyn StreamEvents>)
            .build()?;
        let cache = Cache::default();
        // A weak reference: blocks keep their allocator's regions alive, so a callback that owned blocks would never be
        // freed.
        let evicted = Arc::downgrade(&cache);
        allocator.on_pressure(move |_report| {
            if let Some(cache) = evicted.upgrade() {
                // The blocks are taken out first, so that no lock of ours is held while they are freed.
                let blocks = std::mem::take(&mut *cache.lock().expect("nobody panics with it"));
                drop(blocks);
            }
        });
        Ok(Self { card, streams, allocator, cache })
    }

    fn tensor(&self, size: Bytes) -> Result<Allocation, AllocateError> {
        self.allocator.allocate_for(&Request { stream: COMPUTE, ..Request::new(size) })
    }

    fn keep(&self, block: Allocation) {
        self.cache.lock().expect("nobody panics with it").push(block);
    }

    fn cached(&self) -> usize {
        self.cache.lock().expect("nobody panics with it").len()
    }

    fn stat(&self, key: &str) -> i64 {
        self.allocator.stats().key(key).expect("a key of PyTorch's")
    }
}

/// Runs a step of a model and returns the activation, which the copy stream still reads.
fn step(
    backend: &Backend,
    program: &Program,
    weights: &Allocation,
    out: &mut impl Write,
) -> Result<Allocation, Box<dyn Error>> {
    let activation = backend.tensor(Bytes::mib(3))?;
    // From here until it is dropped, the launch keeps the program and both operands in place.
    let launch = backend.allocator.launch(program, [weights, &activation])?;
    let (place, corrections) = launch.corrections();
    assert!(backend.card.write(place, corrections.bytes()));
    writeln!(
        out,
        "program at {}, {} of corrections at {place}",
        launch.program(),
        corrections.size()
    )?;
    for operand in launch.operands() {
        writeln!(
            out,
            "  {} + {:#x}: flat {:#x}",
            operand.segment,
            operand.offset.get(),
            operand.flat
        )?;
    }
    let tiles = launch.tiles(1, Bytes::mib(1), Bytes::mib(1)).expect("there is an operand 1")?;
    for tile in tiles {
        writeln!(out, "  tile at {tile}")?;
        backend.streams.submit(COMPUTE);
    }
    backend.streams.finish(COMPUTE);
    drop(launch);

    activation.record_stream(COPY);
    backend.streams.submit(COPY);
    Ok(activation)
}

/// Moves blocks together: the allocator plans, the backend copies, the handles follow.
fn compact(backend: &Backend, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let plan = backend.allocator.compact();
    for step in plan.moves() {
        writeln!(out, "move {} from {} to {}", step.size, step.from, step.to)?;
        let data = backend.card.read(step.from, step.size).expect("a live block has memory");
        assert!(backend.card.write(step.to, &data));
    }
    writeln!(out, "moved {} blocks, gave {} back", plan.commit(), backend.allocator.trim())?;
    Ok(())
}

pub(crate) fn run(out: &mut impl Write, snapshot: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let config = "fallback_sizes:[32MiB;16MiB],own_regions:[program],history:1000";
    let backend = Backend::new(Bytes::mib(64), config)?;

    let weights = backend.tensor(Bytes::new(12_000_000))?;
    writeln!(
        out,
        "weights at {}, {} bytes for {}",
        weights.address(),
        weights.size().get(),
        weights.requested().get()
    )?;
    assert!(backend.card.write(weights.address(), b"weights"));

    let binary = [0x90; 1000];
    let program = backend.allocator.load_program(Bytes::new(1000), 2)?;
    assert!(backend.card.write(program.memory().address(), &binary));

    let activation = step(&backend, &program, &weights, out)?;
    drop(activation);
    let (allocated, active) = ("allocated_bytes.all.current", "active_bytes.all.current");
    writeln!(
        out,
        "waiting for the copy: {} bytes",
        backend.stat(active) - backend.stat(allocated)
    )?;
    backend.streams.finish(COPY);
    backend.allocator.synchronize();

    let scratch = backend.tensor(Bytes::mib(2))?;
    for _ in 0..2 {
        backend.keep(backend.tensor(Bytes::mib(8))?);
    }
    let batch = backend.tensor(Bytes::mib(14))?;
    writeln!(out, "batch at {}, cached blocks left: {}", batch.address(), backend.cached())?;

    match backend.tensor(Bytes::mib(100)) {
        Err(AllocateError::OutOfMemory(report)) => writeln!(out, "{report}")?,
        other => drop(other?),
    }

    let bias = backend.tensor(Bytes::new(4000))?;
    drop(scratch);
    compact(&backend, out)?;
    writeln!(out, "bias at {}", bias.address())?;
    assert_eq!(
        backend.card.read(weights.address(), Bytes::new(7)).as_deref(),
        Some(&b"weights"[..])
    );

    for key in [allocated, "reserved_bytes.all.peak", "num_alloc_retries", "num_ooms"] {
        writeln!(out, "{key} {}", backend.stat(key))?;
    }
    let taken = backend.allocator.snapshot();
    taken.write_pickle(0, snapshot)?;
    writeln!(out, "snapshot: {} segments, {} events", taken.segments.len(), taken.history.len())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout().lock();
    match std::env::args_os().nth(1) {
        Some(path) => run(out, &mut File::create(path)?),
        None => run(out, &mut io::sink()),
    }
}
