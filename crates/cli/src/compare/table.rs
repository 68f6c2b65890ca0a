//! Comparisons as text, at most 80 columns wide.

use cubeyard_bench::compare::{Comparison, Difference, Pair, RowComparison};
use cubeyard_draw::xml::shorten;
use cubeyard_sim::Span;
use cubeyard_units::text::{percent_column, significant, span};
use serde_json::Value;

use crate::grid::{BOLD, paint, table};

/// Width of the text.
const WIDTH: usize = 80;
/// Longest value in a cell.
const LONGEST: usize = 22;
/// Units that are not separated from their numbers.
const UNITS: [&str; 5] = ["% ", "%)", "ns ", "µs ", "ms "];
/// Space that is not broken.
const GLUE: char = '\u{a0}';
/// Largest number of times that are listed.
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
    let mut text = wrapped(&format!("{}  {a}", paint("A", BOLD, colours)), 5);
    text += &wrapped(&format!("{}  {b}", paint("B", BOLD, colours)), 5);
    for (name, error) in ["A", "B"].iter().zip(&comparison.errors) {
        let error = error.iter().map(|error| wrapped(&format!("{name} failed: {error}"), 4));
        text += &error.collect::<String>();
    }
    text
}

/// Formats what differs in the input.
fn given(comparison: &Comparison, colours: bool) -> String {
    let all = comparison.inputs.iter().chain(&comparison.machine);
    let rows: Vec<_> = all.map(difference).collect();
    if !rows.is_empty() {
        return table(&["input", "A", "B"], &rows, 3, colours);
    }
    let text = if comparison.other_machine {
        "the machines differ; the records do not say in which keys"
    } else {
        "the inputs are the same"
    };
    format!("  {text}\n")
}

fn difference(difference: &Difference) -> Vec<String> {
    let [a, b] = difference.values.each_ref().map(|it| shorten(&value(it.as_ref()), LONGEST));
    vec![shorten(&difference.name, 28), a, b]
}

/// Formats a value of an input; a list without quotes.
pub(super) fn value(value: Option<&Value>) -> String {
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
    let row = |row: &RowComparison| {
        let ratio = row.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        let [a, b] = row.time_ns.map(time);
        vec![shorten(&row.name, 32), a, b, ratio]
    };
    let rows: Vec<_> = comparison.rows.iter().take(MOST).map(row).collect();
    if rows.is_empty() {
        return "  no times to compare\n".to_owned();
    }
    let text = table(&["time", "A", "B", "B / A"], &rows, 1, colours);
    match comparison.rows.len().saturating_sub(MOST) {
        0 => text,
        more => format!("{text}  and {more} more; --format json has all\n"),
    }
}

/// Formats the parts, utilisation and bounds of one time, and the cause of its change.
fn details(row: &RowComparison, is_one_of_many: bool, colours: bool) -> Vec<String> {
    let name =
        if is_one_of_many { format!("{}, which changed most: ", row.name) } else { String::new() };
    let cause = wrapped(&(name + &row.cause()), 2);
    let mut limits = String::new();
    for (side, limit) in ["A", "B"].iter().zip(&row.limited_by) {
        limits += &limit
            .iter()
            .map(|it| wrapped(&format!("{side} is limited by {it}"), 4))
            .collect::<String>();
    }
    let path = pairs("critical path", &row.path_ns, time, &change, colours);
    let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), percent_column);
    let used = pairs("utilisation", &row.utilisation, share, &points, colours);
    let bounds = pairs("bound", &row.bounds_ns, time, &change, colours);
    vec![path, used, bounds, cause + &limits]
}

fn pairs(
    heading: &str,
    pairs: &[Pair],
    shown: fn(Option<f64>) -> String,
    change: &dyn Fn(&Pair) -> String,
    colours: bool,
) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let row = |pair: &Pair| {
        let [a, b] = pair.values.map(shown);
        vec![shorten(&pair.name, 32), a, b, change(pair)]
    };
    let rows: Vec<_> = pairs.iter().map(row).collect();
    table(&[heading, "A", "B", "B − A"], &rows, 1, colours)
}

/// Formats a time in nanoseconds.
pub(super) fn time(ns: Option<f64>) -> String {
    let shown = |ns: f64| Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span);
    ns.map_or_else(|| "–".to_owned(), shown)
}

/// Formats the change of a time, with its sign.
pub(super) fn change(pair: &Pair) -> String {
    let change = pair.change();
    let sign = if change < 0.0 { "−" } else { "+" };
    if change.abs() < 0.0005 {
        "0".to_owned()
    } else {
        format!("{sign}{}", time(Some(change.abs())))
    }
}

/// Formats the change of a share in percentage points, with its sign.
pub(super) fn points(pair: &Pair) -> String {
    let change = (pair.change() * 1000.0).round() / 10.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    if change == 0.0 { "0".to_owned() } else { format!("{sign}{:.1} points", change.abs()) }
}

fn unreachable(comparison: &Comparison) -> String {
    let sides = ["A", "B"].iter().zip(&comparison.unreachable);
    let lines = sides.flat_map(|(name, all)| all.iter().map(move |it| (name, it)));
    lines.map(|(name, text)| wrapped(&format!("{name}: {text}"), 4)).collect()
}

/// Breaks text into lines that begin with spaces, more of them from the second line on.
fn wrapped(text: &str, hanging: usize) -> String {
    let (mut lines, mut line) = (String::new(), " ".to_owned());
    // A number and its unit stay together.
    let text = UNITS.iter().fold(text.replace('\n', " "), |text, unit| {
        text.replace(&format!(" {unit}"), &format!("{GLUE}{unit}"))
    });
    for word in text.split(' ') {
        let is_full = line.chars().count() + 1 + word.chars().count() > WIDTH;
        if is_full && !line.trim().is_empty() {
            lines += &(line + "\n");
            line = " ".repeat(hanging.saturating_sub(1));
        }
        line += " ";
        line += word;
    }
    (lines + &line + "\n").replace(GLUE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_the_width() {
        let text = wrapped(&"word ".repeat(40), 4);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("  word word"), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("    word"), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }
}
