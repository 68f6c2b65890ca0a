//! Comparisons as text, at most 80 columns wide.

use cubeyard_bench::compare::{Comparison, Pair, RowComparison};
use cubeyard_units::text::percent_column;
use serde_json::Value;

use crate::grid::{self, BOLD, Grid, paint, wrapped};

/// Maximum width of an input's name, its value in A, and its value in B, in characters.
const LONGEST: [usize; 3] = [28, 22, 22];
/// Maximum width of the name of a time or a figure, in characters.
const NAME: usize = 32;
/// Maximum number of times that are listed.
const MOST: usize = 64;

pub(super) fn render(names: &[String; 2], comparison: &Comparison, colours: bool) -> String {
    let mut parts = vec![head(names, comparison, colours), given(comparison, colours)];
    parts.push(times(comparison, colours));
    if let Some(row) = comparison.most_changed() {
        parts.extend(details(row, comparison.rows.len() > 1, colours));
    }
    parts.push(unreachable(comparison));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn head(names: &[String; 2], comparison: &Comparison, colours: bool) -> String {
    let [a, b] = names;
    let mut text = wrapped(&format!("{}  {a}", paint("A", BOLD, colours)), [2, 5]);
    text += &wrapped(&format!("{}  {b}", paint("B", BOLD, colours)), [2, 5]);
    text.extend(errors(comparison).iter().map(|it| wrapped(it, [2, 4])));
    text
}

/// Returns the errors of the sides that failed.
pub(super) fn errors(comparison: &Comparison) -> Vec<String> {
    said("failed:", &comparison.errors)
}

/// Returns the known limits of a time.
pub(super) fn limits(row: &RowComparison) -> Vec<String> {
    said("is limited by", &row.limited_by)
}

fn said(verb: &str, sides: &[Option<String>; 2]) -> Vec<String> {
    let sides = ["A", "B"].iter().zip(sides);
    sides.filter_map(|(side, it)| Some(format!("{side} {verb} {}", it.as_ref()?))).collect()
}

/// Formats the differences between the inputs.
fn given(comparison: &Comparison, colours: bool) -> String {
    match inputs(comparison) {
        Some(inputs) => inputs.shortened(&LONGEST).text(colours),
        None => format!("  {}\n", unknown_inputs(comparison)),
    }
}

/// Returns the differences between the inputs; `None` if none is known.
pub(super) fn inputs(comparison: &Comparison) -> Option<Grid> {
    let all = comparison.inputs.iter().chain(&comparison.machine);
    let rows: Vec<_> = all.map(difference).collect();
    (!rows.is_empty()).then(|| Grid::new(&["input", "A", "B"], rows, 3))
}

/// Returns the statement that no difference between the inputs is known.
pub(super) fn unknown_inputs(comparison: &Comparison) -> &'static str {
    if comparison.other_machine {
        "the machines differ; the records do not say in which keys"
    } else {
        "the inputs are the same"
    }
}

fn difference(difference: &Pair<Value>) -> Vec<String> {
    let [a, b] = difference.values.each_ref().map(|it| value(it.as_ref()));
    vec![difference.name.clone(), a, b]
}

/// Formats an input value; lists are formatted without quotes.
fn value(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let list: Vec<_> = list.iter().map(|it| self::value(Some(it))).collect();
            format!("[{}]", list.join(", "))
        }
        Some(other) => other.to_string(),
    }
}

fn times(comparison: &Comparison, colours: bool) -> String {
    let mut all = all_times(comparison).shortened(&[NAME]);
    if all.rows.is_empty() {
        return "  no times to compare\n".to_owned();
    }
    let more = all.rows.len().saturating_sub(MOST);
    all.rows.truncate(MOST);
    let text = all.text(colours);
    if more == 0 { text } else { format!("{text}  and {more} more; --format json has all\n") }
}

/// Returns all times.
pub(super) fn all_times(comparison: &Comparison) -> Grid {
    let row = |row: &RowComparison| {
        let [a, b] = row.time_ns.map(time);
        vec![row.name.clone(), a, b, ratio(row)]
    };
    let rows = comparison.rows.iter().map(row).collect();
    Grid::new(&["time", "A", "B", "B / A"], rows, 1)
}

/// Formats the ratio of B's time to A's.
pub(super) fn ratio(row: &RowComparison) -> String {
    row.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// Formats the parts, utilisation and bounds of one time, and the cause of its change.
fn details(row: &RowComparison, is_one_of_many: bool, colours: bool) -> Vec<String> {
    let cause = wrapped(&cause(row, is_one_of_many), [2, 2]);
    let limits: String = limits(row).iter().map(|it| wrapped(it, [2, 4])).collect();
    let figures = figures(row).into_iter().map(|grid| grid.shortened(&[NAME]).text(colours));
    figures.chain([cause + &limits]).collect()
}

/// Returns the cause of a change, preceded by the name of the time if there are several.
pub(super) fn cause(row: &RowComparison, is_one_of_many: bool) -> String {
    let cause = row.cause();
    if is_one_of_many { format!("{}, which changed most: {cause}", row.name) } else { cause }
}

/// Returns the available tables of a time: parts of the critical path, utilisation and bounds.
pub(super) fn figures(row: &RowComparison) -> Vec<Grid> {
    let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), percent_column);
    let path = pairs("critical path", &row.path_ns, time, change);
    let used = pairs("utilisation", &row.utilisation, share, points);
    let bounds = pairs("bound", &row.bounds_ns, time, change);
    [path, used, bounds].into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

fn pairs(
    heading: &str,
    pairs: &[Pair],
    shown: fn(Option<f64>) -> String,
    change: fn(&Pair) -> String,
) -> Grid {
    let row = |pair: &Pair| {
        let [a, b] = pair.values.map(shown);
        vec![pair.name.clone(), a, b, change(pair)]
    };
    Grid::new(&[heading, "A", "B", "B − A"], pairs.iter().map(row).collect(), 1)
}

/// Formats a time in nanoseconds.
pub(super) fn time(ns: Option<f64>) -> String {
    ns.map_or_else(|| "–".to_owned(), grid::time)
}

/// Formats the change of a time, with its sign.
fn change(pair: &Pair) -> String {
    let change = pair.change();
    let sign = if change < 0.0 { "−" } else { "+" };
    if change.abs() < 0.0005 {
        "0".to_owned()
    } else {
        format!("{sign}{}", time(Some(change.abs())))
    }
}

/// Formats the change of a share in percentage points, with its sign.
fn points(pair: &Pair) -> String {
    let change = (pair.change() * 1000.0).round() / 10.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    if change == 0.0 { "0".to_owned() } else { format!("{sign}{:.1} points", change.abs()) }
}

fn unreachable(comparison: &Comparison) -> String {
    warnings(comparison).iter().map(|text| wrapped(text, [2, 4])).collect()
}

/// Returns warnings of bandwidths that no traffic can reach, each preceded by the name of its machine.
pub(super) fn warnings(comparison: &Comparison) -> Vec<String> {
    let sides = ["A", "B"].iter().zip(&comparison.unreachable);
    sides.flat_map(|(side, all)| all.iter().map(move |it| format!("{side}: {it}"))).collect()
}
