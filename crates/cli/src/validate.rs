//! `cubeyard validate`: compares known figures with simulated ones.

pub(crate) mod table;

use crate::code::Code;

use anyhow::Result;
use clap::Args;
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_device::topology::Topology;
use cubeyard_validate::collectives;
use cubeyard_validate::{Check, Row, Verdict};
use serde_json::{Map, json};

use crate::machine::MachineOptions;
use crate::output;
use crate::progress::Busy;
use crate::record::{self, Recorded, Stamped, StudyOptions};
use crate::terminal::{self, OutputOptions};

/// Compare the simulator with published figures, closed forms and golden values
///
/// Ends with code 1 if a figure is out of its tolerance. Exact figures must agree. Calibrated figures (used to choose
/// parameters) and predicted figures (not used) may be off by 2 %. Indicative figures are only shown. With a topology
/// of your own, checks of the default machine are left out.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    #[command(flatten)]
    pub(crate) study: StudyOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    let inputs = output::named([("--topology", &arguments.machine.topology)]);
    output::check(&inputs, &output::named([("--save", &arguments.study.save)]))?;
    let topology = arguments.machine.read(arguments.output)?;
    let checks = all(&topology);
    let rows = if arguments.output.is_live() {
        streamed(&checks, arguments.output)?
    } else {
        let progress = Busy::new(arguments.output.quiet, "");
        let rows: Vec<_> = checks.iter().map(|check| measured(check, &progress)).collect();
        drop(progress);
        let report = || stamped(&rows, &topology);
        arguments.output.print(|colours| table::render(&rows, colours), report)?;
        rows
    };
    record::save(&arguments.study, arguments.output, || saved(&topology, &rows))?;
    let left_out = count(&rows, Verdict::LeftOut);
    if left_out > 0 {
        let line = format!("{left_out} checks of the default topology were left out");
        arguments.output.remark(&line);
    }
    Ok(status(&rows))
}

/// Runs all checks, and returns their record.
pub(crate) fn recorded(arguments: &Arguments) -> Result<Recorded> {
    let topology = arguments.machine.read(arguments.output)?;
    let rows: Vec<_> = all(&topology).iter().map(Check::run).collect();
    let is_well = status(&rows) == Code::Done;
    Ok(Recorded { record: saved(&topology, &rows), is_well })
}

/// Returns an object for each check, each with the version and the hash of the machine.
fn stamped<'a>(rows: &'a [Row], topology: &Topology) -> Vec<Stamped<&'a Row>> {
    rows.iter().map(|row| Stamped::new(row, topology)).collect()
}

fn all(topology: &Topology) -> Vec<Check<'_>> {
    let mut checks = cubeyard_validate::checks(topology);
    checks.extend(collectives::checks());
    checks
}

/// Returns the record: all checks, and the measured times among them for a comparison.
fn saved(topology: &Topology, rows: &[Row]) -> Record {
    let times: Vec<_> = rows.iter().filter_map(time).collect();
    let mut figures = Measured::figures(&times);
    figures.insert("checks".to_owned(), json!(rows));
    let record = Record::of_command("validate", "validate", topology, Map::new());
    Record { figures: Some(figures), ..record }
}

/// Returns the time that a check measured; `None` if it measured another quantity.
fn time(row: &Row) -> Option<Measured> {
    let ps = match row.expected.unit {
        "ps" => 1.0,
        "ns" => 1e3,
        _ => return None,
    };
    Some(Measured { name: row.name.clone(), time_ns: row.ours? * ps / 1e3, ..Measured::default() })
}

/// Runs the checks, and prints each row as soon as it is known.
fn streamed(checks: &[Check<'_>], options: OutputOptions) -> Result<Vec<Row>> {
    let mut table = table::Stream::new(terminal::colours());
    let progress = Busy::new(options.quiet, "");
    let mut rows = Vec::new();
    for check in checks {
        let row = measured(check, &progress);
        progress.step(|| terminal::print(&table.lines(&row)))?;
        rows.push(row);
    }
    drop(progress);
    terminal::print(&table.end(&rows))?;
    Ok(rows)
}

fn measured(check: &Check<'_>, progress: &Busy) -> Row {
    progress.turn_to(format!("measuring {}", check.name()));
    check.run()
}

fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

fn status(rows: &[Row]) -> Code {
    if count(rows, Verdict::Failed) > 0 { Code::Failed } else { Code::Done }
}

#[cfg(test)]
mod tests {
    use cubeyard_validate::{CheckKind, Expected};

    use super::*;

    fn rows(ours: f64) -> Vec<Row> {
        let check =
            Check::new(CheckKind::Exact, "made up", Expected::ns(2.0), "nobody", move || ours);
        vec![check.run()]
    }

    /// No input makes one of our checks fail, so the test makes one up.
    #[test]
    fn a_failed_check_is_seen_in_every_form() {
        assert_eq!(status(&rows(2.0)), Code::Done);
        assert_eq!(status(&rows(2.001)), Code::Failed);
        let table = table::render(&rows(2.001), false);
        assert!(table.contains("✗ made up"), "{table}");
        assert!(table.contains("0 ✓ within tolerance, 1 ✗ out of it, 0 – indicative"), "{table}");
        assert_eq!(json!(stamped(&rows(2.001), &Topology::embedded()))[0]["ok"], false);
    }
}
