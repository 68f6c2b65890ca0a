//! Studies as text: a row for each point and measured time, and the verdict.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::xml::shorten;
use cubeyard_study::levers::Limit;
use cubeyard_units::text::{percent_column, significant};

use super::{Outcome, Point, Study, assignments, parts};
use crate::grid::{BOLD, RED, WIDTH, paint, table, time, wrapped};

/// Maximum number of points of which all are shown if there are costs.
const MOST_POINTS: usize = 16;
/// Sign of points on the front.
const MARK: &str = "●";
/// Maximum number of characters of a limit.
const LIMIT: usize = 24;

pub(super) fn render(study: &Study, colours: bool) -> String {
    let title = format!("{}: {} points", study.title, study.grid.len());
    let verdict = Some(study.designs.verdict()).filter(|text| !text.is_empty());
    let places = shown(study);
    let parts = [
        Some(paint(&title, BOLD, colours) + "\n"),
        verdict.map(|text| wrapped(&text, [0, 0])),
        Some(points(study, &places, colours) + &left_out(study, &places)),
        parts::largest(study, &places).map(|it| it.text(colours)),
        Some(failures(study, colours)).filter(|text| !text.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Returns the indices of the points that are shown: those of the front, if there are costs and too many points.
fn shown(study: &Study) -> Vec<usize> {
    let is_short = study.cost.is_none() || study.grid.len() <= MOST_POINTS;
    (0..study.grid.len()).filter(|place| is_short || study.designs.front()[*place]).collect()
}

fn left_out(study: &Study, places: &[usize]) -> String {
    match study.grid.len() - places.len() {
        0 => String::new(),
        count => wrapped(
            &format!("and {count} points that are not on the front; --csv and --report show all"),
            [2, 4],
        ),
    }
}

fn points(study: &Study, places: &[usize], colours: bool) -> String {
    let is_named = is_named(study);
    let mut heading: Vec<String> =
        study.grid.keys().map(|key| short(key, study, is_named)).collect();
    heading.extend(is_named.then(|| "of".to_owned()));
    let left = heading.len();
    let costs: &[&str] = if study.cost.is_some() { &["cost", "front"] } else { &["ratio"] };
    let fixed = [&["time"], costs, &["of bound", "limited by"]].concat();
    heading.extend(fixed.into_iter().map(str::to_owned));
    let mut first = Vec::new();
    let mut rows = Vec::new();
    let all = study.points().enumerate().filter(|(place, _)| places.contains(place));
    for (place, (point, outcome)) in all {
        rows.extend(cells(study, place, &point, outcome, is_named, &mut first));
    }
    align_left(&mut heading, &mut rows);
    let heading: Vec<_> = heading.iter().map(String::as_str).collect();
    table(&heading, &rows, left, colours)
}

/// Pads the cells of the last column, so that their beginnings are aligned.
fn align_left(heading: &mut [String], rows: &mut [Vec<String>]) {
    let all = || std::iter::once(&*heading).chain(rows.iter().map(Vec::as_slice));
    let width = all().filter_map(|row| row.last()).map(|cell| cell.chars().count()).max();
    let pad = |row: &mut [String]| {
        if let (Some(cell), Some(width)) = (row.last_mut(), width) {
            *cell = format!("{cell:<width$}");
        }
    };
    pad(heading);
    rows.iter_mut().for_each(|row| pad(row));
}

/// Shortens a key so that the columns fit the width.
fn short(key: &str, study: &Study, is_named: bool) -> String {
    let room = if is_named { 24 } else { 36 };
    shorten(key, (room / study.grid.axes().len()).max(8))
}

/// Returns whether a point has several times, which need names to distinguish them.
pub(super) fn is_named(study: &Study) -> bool {
    let of = |it: &Outcome| it.as_ref().map_or(0, |it| Measured::all(&it.record).len());
    study.outcomes.iter().any(|it| of(it) > 1)
}

fn cells(
    study: &Study,
    place: usize,
    point: &Point<'_>,
    outcome: &Outcome,
    is_named: bool,
    first: &mut Vec<(String, f64)>,
) -> Vec<Vec<String>> {
    let values = || point.iter().map(|(_, value)| shorten(value, 20));
    let dash = || "–".to_owned();
    let Ok(recorded) = outcome else {
        let costs = if study.cost.is_some() { 2 } else { 1 };
        let name = is_named.then(dash);
        let rest = std::iter::once("failed".to_owned()).chain((0..costs + 2).map(|_| dash()));
        return vec![values().chain(name).chain(rest).collect()];
    };
    let row = |measured: Measured| {
        let name = is_named.then(|| shorten(&measured.name, 24));
        let mark = if recorded.is_well { "" } else { " ✗" };
        let time = time(measured.time_ns) + mark;
        let costs = match study.cost {
            Some(_) => costs(study, place).to_vec(),
            None => vec![ratio(&measured, first)],
        };
        let limit = shorten(&limit(&measured), LIMIT);
        let rest = [vec![time], costs, vec![share(&measured), limit]].concat();
        values().chain(name).chain(rest).collect()
    };
    Measured::all(&recorded.record).into_iter().map(row).collect()
}

/// Returns the ratio of a time to the first time with the same name.
fn ratio(measured: &Measured, first: &mut Vec<(String, f64)>) -> String {
    let known = first.iter().find(|(name, _)| *name == measured.name).map(|(_, time)| *time);
    if known.is_none() {
        first.push((measured.name.clone(), measured.time_ns));
    }
    format!("{:.3}", measured.time_ns / known.unwrap_or(measured.time_ns))
}

/// Returns the cost of a point, and the mark if it is on the front.
pub(super) fn costs(study: &Study, place: usize) -> [String; 2] {
    let cost = study.designs.all()[place].as_ref().and_then(|it| it.cost);
    let knee = if study.designs.knee() == Some(place) { "knee " } else { "" };
    let mark = if study.designs.front()[place] { format!("{knee}{MARK}") } else { String::new() };
    [cost.map_or_else(|| "–".to_owned(), significant), mark]
}

/// Returns the limit of a time, in a few words.
pub(super) fn limit(measured: &Measured) -> String {
    Limit::of(measured).map_or_else(|| "–".to_owned(), |limit| limit.short())
}

/// Formats the largest bound as a share of the measured time.
pub(super) fn share(measured: &Measured) -> String {
    let share = |(_, bound): &(String, f64)| percent_column(bound / measured.time_ns);
    measured.bound().filter(|_| measured.time_ns > 0.0).map_or_else(|| "–".to_owned(), share)
}

/// Returns the errors of failed points, one per line.
fn failures(study: &Study, colours: bool) -> String {
    let points = study.points();
    let failed = points.filter_map(|(point, outcome)| Some((point, outcome.as_ref().err()?)));
    let line = |(point, error): (Point<'_>, &String)| {
        let error = error.lines().next().unwrap_or_default();
        format!("  {} {}: {error}\n", paint("failed", RED, colours), assignments(&point))
    };
    failed.map(line).collect()
}

/// Returns a point and its outcome on one line, as progress output.
pub(super) fn line(point: &Point<'_>, outcome: &Outcome) -> String {
    let result = match outcome {
        Ok(it) => {
            let times = Measured::all(&it.record);
            times.iter().map(|it| time(it.time_ns)).collect::<Vec<_>>().join(", ")
        }
        Err(error) => format!("failed: {}", error.lines().next().unwrap_or_default()),
    };
    let text = format!("{}  {result}", assignments(point));
    // Leaves room for the count of completed points before the text.
    text.chars().take(WIDTH - 14).collect()
}
