//! Memory of several streams whose work completes behind the host: the tables in `docs/replay-accuracy.md`.
//!
//! `cargo run --release -p cubeyard-replay --example streams` prints the peak of temporary memory on one stream after
//! others were used, and then the peak and the waits for each recorded program of several streams, by lag and setting.
//! `-- FILE…` replays these files instead, and `--config KEY:VALUE,…` adds a setting of the Flex allocator.

use std::error::Error;
use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use cubeyard_memory::Bytes;
use cubeyard_memory::flex::{BuildError, FlexConfig, Growth};
use cubeyard_replay::pytorch::PyTorch;
use cubeyard_replay::trace::{self, Lag, Trace};
use cubeyard_replay::{Flex, Outcome, Target, run};
use flate2::read::GzDecoder;

mod ahead;

const TRACES: [&str; 3] = ["gather_record_stream", "prefetch_train", "streams_infer"];
const LAGS: [Lag; 5] =
    [Lag::Recorded, Lag::Launches(0), Lag::Launches(1), Lag::Launches(50), Lag::Launches(500)];
const GROWTHS: [&str; 3] = ["fixed", "growable", "recycle"];
const BLOCKS: [&str; 3] = ["best-fit", "first-fit", "lifetime"];
/// Addresses of a region that grows.
const SPACE: Bytes = Bytes::gib(64 << 10);

type Make = dyn Fn(&Trace) -> Result<Box<dyn Target>, BuildError>;

/// Allocator with its settings.
struct Setting {
    name: String,
    make: Box<Make>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut files, mut configs) = (Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--config" => configs.push(arguments.next().ok_or("--config KEY:VALUE,…")?),
            _ => files.push(PathBuf::from(argument)),
        }
    }
    let out = &mut io::stdout().lock();
    if files.is_empty() {
        temporaries(out)?;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
        files = TRACES.map(|name| folder.join(format!("{name}.pickle.gz"))).into();
    }
    let settings = settings(&configs)?;
    files.iter().try_for_each(|file| recorded(out, file, &settings))
}

/// Prints PyTorch's rule beside ours, for numbers of streams and launches by which the host is ahead.
fn temporaries(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>7}{:>10}{:>14}{:>14}{:>14}",
        "streams", "ahead", "pytorch", "best-fit", "recycle"
    )?;
    for (streams, lag) in ahead::CASES {
        let trace = ahead::trace(streams, lag);
        let cells = ["pytorch", "best-fit", "recycle"]
            .map(|name| format!("{:>10} MiB", ahead::peak(name, &trace).get() >> 20));
        writeln!(out, "{streams:>7}{lag:>10}{}", cells.concat())?;
    }
    Ok(())
}

/// Prints the peak in MiB, its ratio to the live bytes, and the waits, for each setting and lag.
fn recorded(out: &mut impl Write, file: &Path, settings: &[Setting]) -> Result<(), Box<dyn Error>> {
    let given = read(file)?;
    let traces = LAGS.map(|lag| given.clone().with_lag(lag));
    let heads = LAGS.map(|lag| format!("{:>26}", format!("lag {lag}")));
    writeln!(out, "\n{:<26}{}", given.name, heads.concat())?;
    for setting in settings {
        write!(out, "{:<26}", setting.name)?;
        for trace in &traces {
            let outcome = run(trace, &mut *(setting.make)(trace)?, &mut |_| {});
            write!(out, "{:>26}", cell(&outcome))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn cell(outcome: &Outcome) -> String {
    let mib = outcome.peak_reserved.get() >> 20;
    let waste = outcome.waste();
    waste.map_or("failed".to_owned(), |waste| format!("{mib:>11}{waste:>8.3}{:>7}", outcome.waits))
}

/// Returns PyTorch's two, our allocator in all combinations, and the given configurations.
fn settings(configs: &[String]) -> Result<Vec<Setting>, Box<dyn Error>> {
    let mut settings =
        vec![theirs("pytorch", PyTorch::native), theirs("pytorch-expandable", PyTorch::expandable)];
    for growth in GROWTHS {
        for block in BLOCKS {
            let mut config = grown(growth);
            config.set("block", block)?;
            settings.push(ours(format!("{growth}, {block}"), config));
        }
    }
    for text in configs {
        settings.push(ours(text.clone(), text.parse()?));
    }
    Ok(settings)
}

fn theirs(name: &str, model: fn(Option<Bytes>) -> PyTorch) -> Setting {
    let make = move |trace: &Trace| Ok(Box::new(model(None).of(trace)) as Box<dyn Target>);
    Setting { name: name.to_owned(), make: Box::new(make) }
}

fn ours(name: String, config: FlexConfig) -> Setting {
    let make = move |trace: &Trace| {
        Ok(Box::new(Flex::new(config.clone(), trace, None)?) as Box<dyn Target>)
    };
    Setting { name, make: Box::new(make) }
}

/// Returns the settings of a growth: fixed regions of 128 MiB or more, or one region that grows.
fn grown(growth: &str) -> FlexConfig {
    let mut config = FlexConfig::default();
    match growth {
        "fixed" => {
            config.fallback_sizes = [128, 256, 512].map(Bytes::mib).into();
            config.max_regions = 64;
        }
        "growable" => (config.growth, config.max_regions) = (Growth::Growable(SPACE), 1),
        _ => (config.growth, config.max_regions) = (Growth::Recycle(SPACE), 1),
    }
    config
}

fn read(file: &Path) -> Result<Trace, Box<dyn Error>> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut bytes = fs::read(file)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut plain)?;
        bytes = plain;
    }
    let name = name.split('.').next().unwrap_or_default();
    let mut traces = trace::read(name, &bytes, Bytes::gib(1))?;
    traces.pop().ok_or_else(|| "the file has no allocations".into())
}
