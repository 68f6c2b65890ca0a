//! `--levers`: the time of a command if each resource of its machine were twice as fast, on all cores.

mod page;
pub(crate) mod table;

use std::cell::Cell;
use std::ffi::OsString;

use anyhow::{Result, bail};
use cubeyard_study::levers::{Lever, Levers};

use crate::Command;
use crate::code::Code;
use crate::output::{self, Files, Named};
use crate::own::OwnBenches;
use crate::page::PageOptions;
use crate::points::{self, Outcome};
use crate::progress::Progress;
use crate::record::{self, StudyOptions};
use crate::simulating::{self, Simulation};
use crate::terminal::OutputOptions;
use crate::vary::title;

/// Measures the levers of a command and prints them. Ends with code 1 if a check of the command failed.
pub(crate) fn run(
    command: &Command,
    simulation: Simulation<'_>,
    words: &[OsString],
    front: &dyn OwnBenches,
) -> Result<Code> {
    let Simulation { name, machine, study, output: options, .. } = simulation;
    check(command, simulation)?;
    let topology = machine.read(OutputOptions::quiet())?;
    let (base, drawing) = match page(simulation) {
        Some(_) => simulating::drawn(command, front).map(|(base, page)| (base, Some(page)))?,
        None => (simulating::of(command, front)?, None),
    };
    let is_well = Cell::new(base.is_well);
    let progress = Progress::new(options.quiet);
    let measured = Levers::measure(&topology, base.record, |overrides| {
        let outcomes = all(words, overrides, study, front, &progress);
        let record = |outcome: Outcome| {
            outcome.map(|it| {
                is_well.set(is_well.get() && it.is_well);
                it.record
            })
        };
        outcomes.into_iter().map(record).collect()
    });
    progress.finish();
    save(study, options, &measured)?;
    let title = title(name, words);
    if let Some((page, draw)) = page(simulation).zip(drawing) {
        page.write(options, || draw(&page::answer(&measured, &title)))?;
    }
    options.print(|colours| table::render(&measured, &title, colours), || measured.json(&title))?;
    Ok(if is_well.get() { Code::Done } else { Code::Failed })
}

/// Returns the options of the page, if one is asked for.
fn page(simulation: Simulation<'_>) -> Option<&PageOptions> {
    simulation.page.filter(|page| page.report.is_some())
}

/// Checks the outputs before any work; options that write other files of a single run are refused.
fn check(command: &Command, simulation: Simulation<'_>) -> Result<()> {
    let has_levers = matches!(command, Command::Run(_) | Command::Model(_));
    let other_page = page(simulation).filter(|_| !has_levers).map(|_| "--report");
    if let Some(option) = other_page.or_else(|| simulating::single_output(command)) {
        bail!("{option}: cannot be written with --levers\n  help: --save writes all records");
    }
    let inputs = output::named([("--topology", &simulation.machine.topology)]);
    output::check(&inputs, &outputs(simulation))
}

fn outputs(simulation: Simulation<'_>) -> Vec<Named<'_>> {
    let page = simulation.page.and_then(|page| page.report.as_deref());
    let page = page.map(|path| ("--report", path));
    let mut outputs = output::named([("--save", &simulation.study.save)]);
    outputs.extend(page);
    outputs
}

/// Runs the command once for each override of its machine.
fn all(
    words: &[OsString],
    overrides: &[String],
    study: &StudyOptions,
    front: &dyn OwnBenches,
    progress: &Progress,
) -> Vec<Outcome> {
    let with = |given: &String| ["--quiet", "--with", given.as_str()].map(OsString::from);
    let commands = overrides.iter().map(|given| simulating::parsed(words, &with(given)));
    let commands: Vec<_> = match commands.collect::<Result<_>>() {
        Ok(commands) => commands,
        Err(error) => return overrides.iter().map(|_| Err(format!("{error:#}"))).collect(),
    };
    progress.expect(commands.len());
    progress.settle_at(0);
    points::all(&commands, study, front, |place, _| {
        progress.turn_to(overrides[place].clone());
        progress.advance(1);
    })
}

/// Writes the records of the machine and of each lever, in the order of the table.
fn save(study: &StudyOptions, options: OutputOptions, measured: &Levers) -> Result<()> {
    let Some(path) = &study.save else { return Ok(()) };
    let levers = measured.levers.iter().chain(&measured.pairs);
    let records = levers.filter_map(|lever: &Lever| lever.outcome.as_ref().ok());
    let mut records = std::iter::once(&measured.base).chain(records);
    let mut files = Files::default();
    files
        .write(path, "--save", |file| records.try_for_each(|record| record::write(file, record)))?;
    files.finish()?;
    options.remark(&format!("wrote {}", path.display()));
    Ok(())
}
