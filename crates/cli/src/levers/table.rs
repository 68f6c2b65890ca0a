//! Levers as text: the verdict, a row for each lever with an effect, and the names of the others.

use cubeyard_bench::compare::Measured;
use cubeyard_study::levers::{LITTLE, Lever, Levers, PAIRED};
use cubeyard_units::text::{percent, percent_column, whole_percent};

use crate::grid::{RED, fitted, paint, table, time, wrapped};

pub(super) const HEADING: [&str; 4] = ["twice as fast", "time", "saves", "keys"];

pub(crate) fn render(levers: &Levers, title: &str, colours: bool) -> String {
    let parts = [
        wrapped(&levers.verdict(title), [0, 0]),
        grid(&levers.levers, colours),
        pairs(levers, colours),
        rows(levers, colours),
        remarks(levers, colours),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns a row for each lever that changes the time.
pub(super) fn cells(levers: &[Lever]) -> Vec<Vec<String>> {
    let cells = |lever: &Lever| {
        let (ns, saved) = (lever.time_ns()?, lever.saved?);
        let keys = lever.keys.join(", ");
        (saved != 0.0).then(|| vec![lever.name.clone(), time(ns), share(saved), keys])
    };
    levers.iter().filter_map(cells).collect()
}

fn grid(levers: &[Lever], colours: bool) -> String {
    let mut rows = cells(levers);
    if rows.is_empty() {
        return String::new();
    }
    align(&mut rows, 1..3);
    fitted(&HEADING, &rows, colours)
}

/// Formats a saved share; a loss has a minus sign.
fn share(saved: f64) -> String {
    if saved < 0.0 { format!("−{}", percent_column(-saved)) } else { percent_column(saved) }
}

/// Aligns some columns to the right.
fn align(rows: &mut [Vec<String>], columns: std::ops::Range<usize>) {
    for column in columns {
        let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        rows.iter_mut().for_each(|row| row[column] = format!("{:>width$}", row[column]));
    }
}

/// Returns the reason for a table of pairs.
pub(super) fn paired() -> String {
    let little = whole_percent(LITTLE);
    format!(
        "No lever alone saves {little}; pairs of the best {PAIRED}, without those that share all keys of one"
    )
}

fn pairs(levers: &Levers, colours: bool) -> String {
    if levers.pairs.is_empty() {
        return String::new();
    }
    wrapped(&format!("{}:", paired()), [0, 0]) + "\n" + &grid(&levers.pairs, colours)
}

/// Returns the best lever of each time, if the command measured several.
fn rows(levers: &Levers, colours: bool) -> String {
    let times = Measured::all(&levers.base);
    if times.len() < 2 {
        return String::new();
    }
    let cells = |(place, row): (usize, &Measured)| {
        let best = levers.best_of_row(place);
        let dash = || "–".to_owned();
        let best = best.map_or_else(
            || [dash(), dash(), dash()],
            |(lever, ns)| [lever.name.clone(), time(ns), percent_column(1.0 - ns / row.time_ns)],
        );
        [row.name.clone(), time(row.time_ns)].into_iter().chain(best).collect()
    };
    let rows: Vec<Vec<_>> = times.iter().enumerate().map(cells).collect();
    table(&["of", "time", "best lever", "twice as fast", "saves"], &rows, 1, colours)
}

/// Returns the levers without effect, the levers that this machine lacks, those that failed, and the use of the first.
fn remarks(levers: &Levers, colours: bool) -> String {
    statements(levers, colours).iter().map(|text| wrapped(text, [2, 4])).collect()
}

/// Returns the remarks as one text each.
pub(super) fn statements(levers: &Levers, colours: bool) -> Vec<String> {
    let named = |names: Vec<&str>, what: &str| {
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let all = || levers.levers.iter().chain(&levers.pairs);
    let is_idle = |lever: &&Lever| lever.saved == Some(0.0);
    let idle = all().filter(is_idle).map(|lever| &*lever.name).collect();
    let failed = all().filter_map(|lever| Some((lever, lever.outcome.as_ref().err()?)));
    let failed = failed.map(|(lever, error)| {
        let first = error.lines().next().unwrap_or_default();
        format!("{} {}: {first}", paint("failed", RED, colours), lever.name)
    });
    let best = levers.best_pair().or_else(|| levers.best());
    let pull = best.map(|lever| {
        let saves = lever.saved.map(percent).unwrap_or_default();
        format!("pull it with --with {}: saves {saves}", lever.assignment())
    });
    let named = [named(idle, "no effect"), named(levers.absent.clone(), "not on this machine")];
    named.into_iter().flatten().chain(failed).chain(pull).collect()
}
