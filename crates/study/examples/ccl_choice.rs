//! The algorithm that `auto` chooses for each world, operation and size, and the times of all algorithms.
//!
//! `cargo run --release -p cubeyard-study --example ccl_choice [OPERATION [WORLD]]` prints a line for each: times in
//! nanoseconds, estimates in brackets, and the excess of the chosen algorithm over the fastest.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write;

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, DistError, Ranks};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_study::collectives::{Row, Sweep, SweepConfig, Which};

/// Worlds: name, machine, and the unit that is a rank.
const WORLDS: [(&str, &str, Ranks); 15] = [
    ("2 SIPs", "sips: {count: 2}\n", Ranks::Sip),
    ("3 SIPs", "sips: {count: 3}\n", Ranks::Sip),
    ("4 SIPs", "sips: {count: 4}\n", Ranks::Sip),
    ("6 SIPs", "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\n", Ranks::Sip),
    ("8 SIPs", "sips: {count: 8}\n", Ranks::Sip),
    ("16 SIPs", "sips: {count: 16}\n", Ranks::Sip),
    ("1x2 cubes", "sips: {count: 1}\ncubes: {w: 1, h: 2}\n", Ranks::Cube),
    ("2x2 cubes", "sips: {count: 1}\ncubes: {w: 2, h: 2}\n", Ranks::Cube),
    ("2x3 cubes", "sips: {count: 1}\ncubes: {w: 2, h: 3}\n", Ranks::Cube),
    ("4x4 cubes", "sips: {count: 1}\n", Ranks::Cube),
    ("32 cubes", "sips: {count: 2}\n", Ranks::Cube),
    ("96 cubes", "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\n", Ranks::Cube),
    ("8 PEs", "sips: {count: 1}\ncubes: {w: 1, h: 1}\n", Ranks::Pe),
    ("32 PEs", "sips: {count: 1}\ncubes: {w: 2, h: 2}\n", Ranks::Pe),
    ("48 PEs", "sips: {count: 1}\ncubes: {w: 2, h: 3}\n", Ranks::Pe),
];

/// Returns the powers of four from 64 B to 4 MiB.
fn sizes() -> Vec<u64> {
    (3..12).map(|power| 4_u64.pow(power)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |place: usize, name: &str| wanted.get(place).is_none_or(|it| it == name);
    let mut out = std::io::stdout();
    for (world, text, ranks) in WORLDS.into_iter().filter(|world| is_wanted(1, world.0)) {
        let operations = Operation::all(ReduceOp::Sum, 0).into_iter();
        for operation in operations.filter(|operation| is_wanted(0, operation.name())) {
            let config = config(Topology::read(world, text)?, ranks, operation);
            for rows in Sweep::run(&config)?.rows.chunk_by(|left, right| left.bytes == right.bytes)
            {
                writeln!(out, "{world:9} {}", line(&config, rows)?)?;
            }
        }
    }
    Ok(())
}

fn config(topology: Topology, ranks: Ranks, operation: Operation) -> SweepConfig {
    let mut ccl = CclConfig::embedded();
    ccl.each(|config| config.ranks = ranks);
    SweepConfig {
        topology,
        ccl,
        which: Which::All,
        operation,
        dtype: DType::F16,
        sizes: sizes(),
        check_up_to: 0,
        every_memory: false,
    }
}

/// Formats the times of all algorithms at a size, and the chosen one.
fn line(config: &SweepConfig, rows: &[Row]) -> Result<String, DistError> {
    let bytes = rows[0].bytes;
    let mut line = format!("{:15} {bytes:8}", config.operation.name());
    let timed = rows.iter().filter_map(|row| Some((&row.algorithm, row.figures.as_ref().ok()?)));
    let mut best = f64::INFINITY;
    for (algorithm, figures) in timed.clone() {
        let estimate =
            figures.estimate.map_or_else(|| "?".to_owned(), |it| format!("{:.0}", it.ns()));
        let _ = write!(line, "  {algorithm} {:.0} ({estimate})", figures.time.ns());
        best = best.min(figures.time.ns());
    }
    let chosen = config.ccl.resolve(&config.topology, config.operation, config.dtype, bytes)?.name;
    let its = timed.clone().find(|(algorithm, _)| **algorithm == chosen);
    let more = its.map(|(_, figures)| (figures.time.ns() / best - 1.0) * 100.0);
    let more = more.map_or_else(|| "not measured".to_owned(), |more| format!("{more:+.0} %"));
    Ok(format!("{line}  => {chosen} {more}"))
}
