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
    let verdict = wrapped(&comparison.verdict(), [2, 2]);
    let mut parts = vec![head(names, comparison, colours), verdict, given(comparison, colours)];
    parts.push(times(comparison, colours));
    if let Some(row) = comparison.most_changed() {
        parts.extend(details(row, colours));
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

/// Formats the parts, utilisation and bounds of one time.
fn details(row: &RowComparison, colours: bool) -> Vec<String> {
    let background = Some(row.background()).filter(|text| !text.is_empty());
    let background = background.map(|text| wrapped(&text, [2, 2])).unwrap_or_default();
    let limits: String = limits(row).iter().map(|it| wrapped(it, [2, 4])).collect();
    let figures = figures(row).into_iter().map(|grid| grid.shortened(&[NAME]).text(colours));
    figures.chain([background + &limits]).collect()
}

/// Returns the available tables of a time: parts of the critical path, utilisation and bounds.
pub(super) fn figures(row: &RowComparison) -> Vec<Grid> {
    let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), percent_column);
    let path = path(row);
    let used = pairs("utilisation", &row.utilisation, share, points);
    let bounds = pairs("bound", &row.bounds_ns, time, change);
    [path, used, bounds].into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

/// Returns the parts of the critical path, with their shares of the difference and their sum.
fn path(row: &RowComparison) -> Grid {
    let mut grid = pairs("critical path", &row.path_ns, time, change);
    let difference = row.difference();
    if difference.is_empty() {
        return grid;
    }
    let shares: Vec<_> = difference.iter().map(|part| part.share).collect();
    let shares = percents(&shares);
    let share = |name: &str| {
        let at = difference.iter().position(|part| part.name == name);
        at.map_or_else(|| "0".to_owned(), |at| tenths(shares[at]))
    };
    let whole = Pair { name: "all".to_owned(), values: row.time_ns };
    let [a, b] = row.time_ns.map(time);
    grid.heading.push("of B − A".to_owned());
    for cells in &mut grid.rows {
        cells.push(share(&cells[0]));
    }
    let sum = shares.iter().sum();
    grid.rows.push(vec![whole.name.clone(), a, b, change(&whole), tenths(sum)]);
    grid
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

/// Rounds shares of a whole to tenths of a percent, so that the rounded shares add up to the rounded whole: the shares
/// that lose most by rounding down are rounded up.
fn percents(shares: &[f64]) -> Vec<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a share of a difference of times")]
    let whole = |value: f64| value as i64;
    let exact: Vec<_> = shares.iter().map(|share| share * 1000.0).collect();
    let mut rounded: Vec<_> = exact.iter().map(|share| whole(share.floor())).collect();
    let missing = whole(exact.iter().sum::<f64>().round()) - rounded.iter().sum::<i64>();
    let mut order: Vec<_> = (0..shares.len()).collect();
    let lost = |at: &usize| exact[*at] - exact[*at].floor();
    order.sort_by(|one, other| lost(other).total_cmp(&lost(one)));
    for at in order.into_iter().take(usize::try_from(missing).unwrap_or_default()) {
        rounded[at] += 1;
    }
    rounded
}

/// Formats tenths of a percent.
fn tenths(share: i64) -> String {
    let sign = if share < 0 { "−" } else { "" };
    format!("{sign}{}.{} %", share.abs() / 10, share.abs() % 10)
}

fn unreachable(comparison: &Comparison) -> String {
    warnings(comparison).iter().map(|text| wrapped(text, [2, 4])).collect()
}

/// Returns warnings of bandwidths that no traffic can reach, each preceded by the name of its machine.
pub(super) fn warnings(comparison: &Comparison) -> Vec<String> {
    let sides = ["A", "B"].iter().zip(&comparison.unreachable);
    sides.flat_map(|(side, all)| all.iter().map(move |it| format!("{side}: {it}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_shares_add_up_to_the_whole() {
        assert_eq!(percents(&[1.0 / 3.0; 3]), [334, 333, 333]);
        assert_eq!(percents(&[28.1749, -27.1749]), [28175, -27175]);
        assert_eq!(percents(&[]), [0; 0]);
        let mut state = 7_u64;
        for count in 1..40_usize {
            let parts: Vec<_> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 40) as f64 - 4e6
                })
                .collect();
            let sum: f64 = parts.iter().sum();
            let shares: Vec<_> = parts.iter().map(|part| part / sum).collect();
            let rounded = percents(&shares);
            assert_eq!(rounded.iter().sum::<i64>(), 1000, "{parts:?}");
            let close =
                |(share, tenth): (&f64, &i64)| (share * 1000.0 - *tenth as f64).abs() <= 1.0;
            assert!(shares.iter().zip(&rounded).all(close), "{shares:?} {rounded:?}");
        }
    }

    #[test]
    fn shares_have_one_decimal() {
        assert_eq!([1000, 5, -5, -27175].map(tenths), ["100.0 %", "0.5 %", "−0.5 %", "−2717.5 %"]);
    }
}
