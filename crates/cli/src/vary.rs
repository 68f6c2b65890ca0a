//! `--vary`: runs a command at every point of a grid, on all cores.

mod chart;
mod grid;
mod page;
mod table;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;

use anyhow::{Result, bail};
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::{Record, VERSION};
use cubeyard_study::Grid;
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::machine::MachineOptions;
use crate::output::{self, Files};
use crate::own::OwnBenches;
use crate::points::{self, Outcome};
use crate::progress::Busy;
use crate::record::{self, StudyOptions};
use crate::run::foreseen;
use crate::simulating::{self, Simulation};
use crate::terminal::OutputOptions;
use crate::{Command, terminal};

/// Keys with their values at a point of the grid.
type Point<'a> = Vec<(&'a str, &'a String)>;

/// Results of all points, in the order of the grid.
struct Study {
    /// Command with its arguments, for titles.
    title: String,
    grid: Grid<String>,
    outcomes: Vec<Outcome>,
}

impl Study {
    /// Returns the keys and values of each point with its result.
    fn points(&self) -> impl Iterator<Item = (Point<'_>, &Outcome)> {
        self.grid.points().zip(&self.outcomes)
    }
}

pub(crate) fn run(
    command: &Command,
    simulation: Simulation<'_>,
    words: &[OsString],
    front: &dyn OwnBenches,
) -> Result<Code> {
    let Simulation { name, machine, study, output: options, .. } = simulation;
    check(command, machine, study)?;
    let grid = grid::read(&study.vary)?;
    check_keys(command, &grid, front)?;
    let commands = grid.points().map(|point| parsed(command, words, &point));
    let commands: Vec<_> = commands.collect::<Result<_>>()?;
    if !options.quiet {
        warn(&commands, options);
    }
    let mut told = Told::new(&grid, options);
    let outcomes =
        points::all(&commands, study, front, |place, outcome| told.point(place, outcome));
    drop(told);
    let study_of = Study { title: title(name, words), grid, outcomes };
    let record = |place: usize| record_of(&study_of, place, &commands[place], front);
    write_files(&study_of, study, options, &record)?;
    options.print(|colours| table::render(&study_of, colours), || json(&study_of))?;
    let well = study_of.outcomes.iter().all(|it| it.as_ref().is_ok_and(|it| it.is_well));
    Ok(if well { Code::Done } else { Code::Failed })
}

/// Returns the name of a command, with the bench's name for `run`.
pub(crate) fn title(name: &str, words: &[OsString]) -> String {
    let after = words.iter().skip_while(|word| **word != *name).nth(1);
    let bench = after.map(|word| word.to_string_lossy()).filter(|word| !word.starts_with('-'));
    bench.map_or_else(|| name.to_owned(), |bench| format!("{name} {bench}"))
}

/// Checks the outputs before any work; options that write a file of a single run are refused.
fn check(command: &Command, machine: &MachineOptions, study: &StudyOptions) -> Result<()> {
    if let Some(option) = simulating::single_output(command) {
        bail!(
            "{option}: cannot be written with --vary\n  help: --csv, --chart and --save write all points"
        );
    }
    if let Some(path) = &study.chart {
        output::is_page(path)?;
    }
    let StudyOptions { save, csv, chart, .. } = study;
    let inputs = output::named([("--topology", &machine.topology)]);
    output::check(&inputs, &output::named([("--save", save), ("--csv", csv), ("--chart", chart)]))
}

/// Prints the warnings of the machines of all points, without duplicates.
fn warn(commands: &[Command], options: OutputOptions) {
    let mut given = BTreeSet::new();
    for simulation in commands.iter().filter_map(Simulation::of) {
        // A machine that cannot be read is reported as the error of its point.
        for warning in simulation.machine.warnings().unwrap_or_default() {
            if given.insert(warning.clone()) {
                options.remark(&warning);
            }
        }
    }
}

/// Checks that the command or the machine has each key.
fn check_keys(command: &Command, grid: &Grid<String>, front: &dyn OwnBenches) -> Result<()> {
    for (key, values) in grid.axes() {
        simulating::check_key("--vary", command, (key, &values[0]), front)?;
    }
    Ok(())
}

/// Parses the command with the values of a point applied.
fn parsed(command: &Command, words: &[OsString], point: &Point<'_>) -> Result<Command> {
    let mut more = vec![OsString::from("--quiet")];
    for (key, value) in point {
        more.extend(simulating::assigned(command, key, value));
    }
    simulating::parsed(words, &more)
}

/// Progress output on a terminal: a line for each point as it ends.
struct Told<'a> {
    grid: &'a Grid<String>,
    progress: Busy,
    is_watched: bool,
    done: usize,
}

impl<'a> Told<'a> {
    fn new(grid: &'a Grid<String>, options: OutputOptions) -> Self {
        let progress = Busy::new(options.quiet, &format!("{} points", grid.len()));
        Self { grid, progress, is_watched: !options.quiet && terminal::is_watched(), done: 0 }
    }

    fn point(&mut self, place: usize, outcome: &Outcome) {
        self.done += 1;
        if self.is_watched {
            let line = format!(
                "{}/{}  {}",
                self.done,
                self.grid.len(),
                table::line(&self.grid.point(place), outcome)
            );
            self.progress.step(|| terminal::note(&line));
        }
    }
}

/// Writes the files that options name; `record` returns the record of a point.
fn write_files(
    study: &Study,
    options: &StudyOptions,
    output: OutputOptions,
    record: &dyn Fn(usize) -> Record,
) -> Result<()> {
    let mut files = Files::default();
    if let Some(path) = &options.csv {
        files.write(path, "--csv", |file| file.write_all(table::csv(study).as_bytes()))?;
    }
    if let Some(path) = &options.chart {
        let text =
            if output::is_page(path)? { page::page_of(study) } else { chart::chart(study).svg() };
        files.write(path, "--chart", |file| file.write_all(text.as_bytes()))?;
    }
    if let Some(path) = &options.save {
        let mut places = 0..study.outcomes.len();
        files.write(path, "--save", |file| {
            places.try_for_each(|place| record::write(file, &record(place)))
        })?;
    }
    files.finish()?;
    for path in [&options.csv, &options.chart, &options.save].into_iter().flatten() {
        output.remark(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Returns the record of a point. The record of a failed point has the error instead of figures. Where inputs are invalid, they are
/// those of the point alone.
fn record_of(study: &Study, place: usize, command: &Command, front: &dyn OwnBenches) -> Record {
    let error = match &study.outcomes[place] {
        Ok(it) => return it.record.clone(),
        Err(error) => Some(error.clone()),
    };
    let foreseen = match command {
        Command::Run(arguments) => foreseen(arguments, front).ok(),
        _ => None,
    };
    let values = || values(&study.grid.point(place));
    let named = || Record::named(study.title.clone(), String::new(), values());
    Record { error, ..foreseen.unwrap_or_else(named) }
}

/// Returns the values of a point by key.
fn values(point: &Point<'_>) -> Map<String, Value> {
    point.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
}

fn json(study: &Study) -> Value {
    let point = |(point, outcome): (Point<'_>, &Outcome)| {
        let values = values(&point);
        match outcome {
            Ok(it) => json!({
                "values": values,
                "topology": it.record.topology,
                "inputs": it.record.inputs,
                "rows": Measured::figures(&Measured::all(&it.record))["rows"],
                "ok": it.is_well,
                "error": null,
            }),
            Err(error) => json!({ "values": values, "ok": false, "error": error }),
        }
    };
    let keys: Vec<_> = study.grid.keys().collect();
    let points: Vec<_> = study.points().map(point).collect();
    json!({ "version": VERSION, "command": study.title, "keys": keys, "points": points })
}
