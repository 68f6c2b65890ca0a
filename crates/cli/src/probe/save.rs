//! Measurements as records.

use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_device::probe::{PatternReport, ProbeReport};
use cubeyard_device::topology::Topology;
use serde_json::{Map, Value, json};

pub(super) fn of_cases(topology: &Topology, probed: &ProbeReport) -> Record {
    let rows: Vec<_> = probed.cases.iter().map(|it| row(&it.case.name, &it.reference)).collect();
    let names: Vec<_> = rows.iter().map(|row| row.name.clone()).collect();
    record(topology, ("cases", json!(names)), &rows)
}

pub(super) fn of_pattern(topology: &Topology, file: &str, probed: &PatternReport) -> Record {
    let transfers = probed.transfers.iter().enumerate();
    let transfers = transfers.map(|(number, it)| row(&format!("transfer {number}"), &it.measured));
    let (name, time_ns) = ("all transfers".to_owned(), probed.makespan.ns());
    let whole = Measured { name, time_ns, ..Measured::default() };
    let rows: Vec<_> = std::iter::once(whole).chain(transfers).collect();
    record(topology, ("pattern", json!(file)), &rows)
}

fn record(topology: &Topology, (name, value): (&str, Value), rows: &[Measured]) -> Record {
    let inputs = Map::from_iter([(name.to_owned(), value)]);
    let record = Record::of_command("probe", "probe", topology, inputs);
    Record { figures: Some(Measured::figures(rows)), ..record }
}

fn row(name: &str, measured: &cubeyard_device::probe::Measured) -> Measured {
    let parts = [
        ("overhead", measured.unloaded.overhead),
        ("wire", measured.unloaded.wire),
        ("serialisation", measured.unloaded.serialisation),
        ("service", measured.unloaded.service),
        ("wait", measured.wait()),
    ];
    let slowest = "slowest link".to_owned();
    let least = measured.bottleneck.span(measured.bytes).ns();
    Measured {
        name: name.to_owned(),
        time_ns: measured.latency.ns(),
        path_ns: parts.map(|(name, span)| (name.to_owned(), span.ns())).into(),
        utilisation: vec![(slowest.clone(), measured.utilisation())],
        bounds_ns: vec![(slowest, least)],
        limited_by: None,
    }
}
