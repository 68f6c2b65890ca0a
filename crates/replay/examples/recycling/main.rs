//! Memory saved by recycling and learned placement, and its cost in device calls: the table in
//! `docs/replay-accuracy.md`.
//!
//! `cargo run --release -p cubeyard-replay --example recycling` prints, for each recorded trace, peak
//! committed over peak live and the device calls for a thousand allocations. With `-- SEEDS` it then
//! compares learned placement with best fit on as many synthetic traces of each kind.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::sync::Arc;

use cubeyard_memory::device::{Card, CardSpec, DeviceMemory as _};
use cubeyard_memory::policy::Request;
use cubeyard_memory::{Allocation, Bytes, FlexAllocator};
use cubeyard_replay::trace::{self, Event, Trace};
use flate2::read::GzDecoder;

mod synthetic;

const TRACES: [&str; 5] =
    ["gpt2_train", "llama_generate", "llama_train_ckpt", "resnet_train", "serving_mix"];
const SETTINGS: [(&str, &str); 4] = [
    ("best-fit", "growable"),
    ("lifetime", "growable"),
    ("best-fit", "recycle"),
    ("lifetime", "recycle"),
];

/// Memory and device calls of a setting for a trace.
struct Need {
    waste: f64,
    calls: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout().lock();
    let heads = SETTINGS.map(|(block, growth)| format!("{:>22}", format!("{block}, {growth}")));
    writeln!(out, "{:<16}{}", "waste, calls", heads.concat())?;
    for name in TRACES {
        let trace = recorded(name)?;
        let cells = SETTINGS.map(|(block, growth)| {
            let need = replay(&trace, block, growth);
            format!("{:>16.4}{:>6.0}", need.waste, need.calls)
        });
        writeln!(out, "{name:<16}{}", cells.concat())?;
    }
    match std::env::args().nth(1) {
        Some(seeds) => compare(out, seeds.parse()?),
        None => Ok(()),
    }
}

/// Compares learned placement with best fit, both recycling, on synthetic traces.
fn compare(out: &mut impl Write, seeds: u64) -> Result<(), Box<dyn Error>> {
    writeln!(out, "\n{:<26}{:>10}{:>10}{:>12}{:>12}", "lifetime", "less", "more", "best", "worst")?;
    for workload in synthetic::WORKLOADS {
        let ratios: Vec<_> = (1..=seeds)
            .map(|seed| {
                let trace = workload.trace(seed);
                let need = |block| replay(&trace, block, "recycle").waste;
                100.0 * (need("lifetime") / need("best-fit") - 1.0)
            })
            .collect();
        let count = |wanted: fn(f64) -> bool| ratios.iter().filter(|&&ratio| wanted(ratio)).count();
        let (less, more) = (count(|ratio| ratio < -0.005), count(|ratio| ratio > 0.005));
        let best = ratios.iter().copied().fold(0.0, f64::min);
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        writeln!(out, "{:<26}{less:>10}{more:>10}{best:>10.2} %{worst:>10.2} %", workload.name)?;
    }
    Ok(())
}

fn recorded(name: &str) -> Result<Trace, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(folder.join(format!("{name}.csv.gz")))?).read_to_end(&mut bytes)?;
    Ok(trace::read(name, &bytes, Bytes::gib(1))?.remove(0))
}

/// Replays a trace in one growable region, on a card with sufficient memory.
fn replay(trace: &Trace, block: &str, growth: &str) -> Need {
    let space = Bytes::new(1 << 46);
    let card = Arc::new(Card::new(CardSpec::physical(space)));
    let config = format!("block:{block},growth:{growth}({}),max_regions:1", space.get());
    let allocator = FlexAllocator::builder(Arc::clone(&card) as _)
        .config(config.parse().expect("the names are those of the table"))
        .build()
        .expect("the card can commit in granules");
    let mut blocks: Vec<Option<Allocation>> = (0..trace.allocations).map(|_| None).collect();
    let mut committed = Bytes::ZERO;
    for event in &trace.events {
        match event {
            Event::Allocate(asked) if asked.size.is_zero() => {}
            Event::Allocate(asked) => {
                let (stream, site) = (asked.stream, asked.site);
                let request = Request { stream, site, ..Request::new(asked.size) };
                let block = allocator.allocate_for(&request).expect("there is room for everything");
                blocks[asked.id.index()] = Some(block);
                let info = card.info();
                committed = committed.max(info.total - info.free);
            }
            Event::Free { id, .. } => drop(blocks[id.index()].take()),
        }
    }
    let stats = allocator.stats();
    let live = stats.key("allocated_bytes.all.peak").expect("a key of PyTorch's");
    let calls = stats.counters.device_allocs + stats.counters.device_frees;
    Need {
        waste: committed.get() as f64 / live as f64,
        calls: 1000.0 * calls as f64 / f64::from(trace.allocations),
    }
}
