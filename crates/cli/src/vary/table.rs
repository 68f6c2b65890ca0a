//! Studies as text and CSV: a row for each point and measured time.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::xml::shorten;
use cubeyard_units::text::percent_column;

use super::{Outcome, Point, Study};
use crate::grid::{BOLD, RED, WIDTH, paint, table, time};

pub(super) fn render(study: &Study, colours: bool) -> String {
    let is_named = is_named(study);
    let mut heading: Vec<String> =
        study.grid.keys().map(|key| short(key, study, is_named)).collect();
    if is_named {
        heading.push("of".to_owned());
    }
    let left = heading.len();
    heading.extend(["time", "of the first", "of bound"].map(str::to_owned));
    let heading: Vec<_> = heading.iter().map(String::as_str).collect();
    let mut first = Vec::new();
    let mut rows = Vec::new();
    for (point, outcome) in study.points() {
        rows.extend(cells(&point, outcome, is_named, &mut first));
    }
    let title = format!("{}: {} points", study.title, study.grid.len());
    let text =
        format!("{}\n\n{}", paint(&title, BOLD, colours), table(&heading, &rows, left, colours));
    text + &failures(study, colours)
}

/// Shortens a key so that the columns fit the width.
fn short(key: &str, study: &Study, is_named: bool) -> String {
    let room = if is_named { 30 } else { 48 };
    shorten(key, (room / study.grid.axes().len()).max(8))
}

/// Returns whether a point has several times, which need names to distinguish them.
pub(super) fn is_named(study: &Study) -> bool {
    let of = |it: &Outcome| it.as_ref().map_or(0, |it| Measured::all(&it.record).len());
    study.outcomes.iter().any(|it| of(it) > 1)
}

fn cells(
    point: &Point<'_>,
    outcome: &Outcome,
    is_named: bool,
    first: &mut Vec<(String, f64)>,
) -> Vec<Vec<String>> {
    let values = || point.iter().map(|(_, value)| shorten(value, 20));
    let Ok(recorded) = outcome else {
        let name = is_named.then(|| "–".to_owned());
        return vec![values().chain(name).chain(["failed", "–", "–"].map(str::to_owned)).collect()];
    };
    let row = |measured: Measured| {
        let name = is_named.then(|| shorten(&measured.name, 24));
        let known = first.iter().find(|(name, _)| *name == measured.name).map(|(_, time)| *time);
        let ns = measured.time_ns;
        if known.is_none() {
            first.push((measured.name.clone(), ns));
        }
        let ratio = format!("{:.3}", ns / known.unwrap_or(ns));
        let mark = if recorded.is_well { "" } else { " ✗" };
        let figures = [time(ns) + mark, ratio, share(&measured)];
        values().chain(name).chain(figures).collect()
    };
    Measured::all(&recorded.record).into_iter().map(row).collect()
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
    let lines: String = failed.map(line).collect();
    if lines.is_empty() { lines } else { "\n".to_owned() + &lines }
}

fn assignments(point: &Point<'_>) -> String {
    let all = point.iter().map(|(key, value)| format!("{key}={value}"));
    all.collect::<Vec<_>>().join(" ")
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

/// Returns all points as CSV, with times in nanoseconds.
pub(super) fn csv(study: &Study) -> String {
    let keys = study.grid.keys().map(field);
    let fixed = ["name", "time_ns", "bound_ns", "bound", "limited_by", "ok", "topology", "error"];
    let mut text = keys.chain(fixed.map(str::to_owned)).collect::<Vec<_>>().join(",") + "\n";
    for (point, outcome) in study.points() {
        for figures in fields(outcome) {
            let values = point.iter().map(|(_, value)| field(value));
            text += &values.chain(figures.iter().map(|it| field(it))).collect::<Vec<_>>().join(",");
            text.push('\n');
        }
    }
    text
}

fn fields(outcome: &Outcome) -> Vec<[String; 8]> {
    match outcome {
        Ok(it) => {
            let row = |measured: Measured| {
                let (bound, least) = measured.bound().cloned().unzip();
                let least = least.map_or_else(String::new, |least: f64| least.to_string());
                let limit = measured.limited_by.clone().unwrap_or_default();
                let (time, ok) = (measured.time_ns.to_string(), it.is_well.to_string());
                let (bound, hash) = (bound.unwrap_or_default(), it.record.topology.clone());
                [measured.name, time, least, bound, limit, ok, hash, String::new()]
            };
            Measured::all(&it.record).into_iter().map(row).collect()
        }
        Err(error) => {
            let none = String::new;
            let error = error.lines().next().unwrap_or_default().to_owned();
            let ok = "false".to_owned();
            vec![[none(), none(), none(), none(), none(), ok, none(), error]]
        }
    }
}

/// Quotes a field if needed (RFC 4180).
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(field("a"), "a");
        assert_eq!(field("[N, S]"), "\"[N, S]\"");
        assert_eq!(field("a \"b\"\n"), "\"a \"\"b\"\"\n\"");
    }
}
