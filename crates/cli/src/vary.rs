//! `--vary`: runs a command at every point of a grid, on all cores.

mod chart;
mod costs;
mod csv;
mod grid;
mod json;
mod page;
mod parts;
mod table;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_study::Grid;
use cubeyard_study::designs::{Design, Designs};
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::output::{self, Files};
use crate::own::OwnBenches;
use crate::page::PageOptions;
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
    /// Expression of `--cost`.
    cost: Option<String>,
    /// Times and costs of all points, and the front among them.
    designs: Designs,
}

impl Study {
    fn new(
        title: String,
        grid: Grid<String>,
        outcomes: Vec<Outcome>,
        (cost, costs): (Option<String>, Vec<Option<f64>>),
    ) -> Self {
        let design = |((point, outcome), cost): ((Point<'_>, &Outcome), &Option<f64>)| {
            let times = Measured::all(&outcome.as_ref().ok()?.record);
            let time_ns = times.iter().map(|it| it.time_ns).sum();
            (!times.is_empty()).then(|| Design { name: assignments(&point), time_ns, cost: *cost })
        };
        let designs = Designs::new(grid.points().zip(&outcomes).zip(&costs).map(design));
        Self { title, grid, outcomes, cost, designs }
    }

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
    let Simulation { name, study, output: options, page, .. } = simulation;
    check(command, simulation)?;
    let grid = grid::read(&study.vary)?;
    check_keys(command, &grid, front)?;
    let commands = grid.points().map(|point| parsed(command, words, &point));
    let commands: Vec<_> = commands.collect::<Result<_>>()?;
    let costs = costs::of(study.cost.as_deref(), &grid, &commands)?;
    if !options.quiet {
        warn(&commands, options);
    }
    let mut told = Told::new(&grid, options);
    let outcomes =
        points::all(&commands, study, front, |place, outcome| told.point(place, outcome));
    drop(told);
    let study_of = Study::new(title(name, words), grid, outcomes, (study.cost.clone(), costs));
    let record = |place: usize| record_of(&study_of, place, &commands[place], front);
    write_files(&study_of, simulation, &record)?;
    page.map_or(Ok(()), PageOptions::show)?;
    options.print(|colours| table::render(&study_of, colours), || json::json(&study_of))?;
    let well = study_of.outcomes.iter().all(|it| it.as_ref().is_ok_and(|it| it.is_well));
    Ok(if well { Code::Done } else { Code::Failed })
}

/// Returns the name of a command, with the bench's name for `run`.
pub(crate) fn title(name: &str, words: &[OsString]) -> String {
    let after = words.iter().skip_while(|word| **word != *name).nth(1);
    let bench = after.map(|word| word.to_string_lossy()).filter(|word| !word.starts_with('-'));
    let short = |bench: &str| bench.rsplit('/').next().unwrap_or(bench).to_owned();
    bench.map_or_else(|| name.to_owned(), |bench| format!("{name} {}", short(&bench)))
}

/// Checks the outputs before any work; options that write a file of a single run are refused.
fn check(command: &Command, simulation: Simulation<'_>) -> Result<()> {
    let Simulation { machine, study, .. } = simulation;
    if let Some(option) = simulating::single_output(command) {
        bail!(
            "{option}: cannot be written with --vary\n  help: --csv, --report and --save write all points"
        );
    }
    let pictures = pictures(simulation);
    pictures.iter().try_for_each(|path| output::is_page(path).map(|_| ()))?;
    let StudyOptions { save, csv, .. } = study;
    let inputs = output::named([("--topology", &machine.topology)]);
    let outputs = output::named([("--save", save), ("--csv", csv)]).into_iter();
    let pictures = pictures.iter().map(|path| (output::PICTURE, path.as_path()));
    output::check(&inputs, &outputs.chain(pictures).collect::<Vec<_>>())
}

/// Returns the files of pictures and pages.
fn pictures(simulation: Simulation<'_>) -> Vec<&PathBuf> {
    let page = simulation.page.and_then(|page| page.report.as_ref());
    page.into_iter().chain(&simulation.study.chart).collect()
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
    simulation: Simulation<'_>,
    record: &dyn Fn(usize) -> Record,
) -> Result<()> {
    let Simulation { study: options, output, .. } = simulation;
    let pictures = pictures(simulation);
    let mut files = Files::default();
    if let Some(path) = &options.csv {
        files.write(path, "--csv", |file| file.write_all(csv::csv(study).as_bytes()))?;
    }
    for path in &pictures {
        let is_page = output::is_page(path)?;
        let text = if is_page { page::page_of(study) } else { chart::picture(study).svg() };
        files.write(path, "--report", |file| file.write_all(text.as_bytes()))?;
    }
    if let Some(path) = &options.save {
        let mut places = 0..study.outcomes.len();
        files.write(path, "--save", |file| {
            places.try_for_each(|place| record::write(file, &record(place)))
        })?;
    }
    files.finish()?;
    for path in options.csv.iter().chain(pictures).chain(&options.save) {
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

/// Returns a point as text.
fn assignments(point: &Point<'_>) -> String {
    let all = point.iter().map(|(key, value)| format!("{key}={value}"));
    all.collect::<Vec<_>>().join(" ")
}

/// Returns the values of a point by key.
fn values(point: &Point<'_>) -> Map<String, Value> {
    point.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect()
}
