//! Text tables with aligned columns, a heading and optional colours.

use cubeyard_draw::xml::shorten;
use cubeyard_sim::Span;
use cubeyard_units::text::{significant, span};

/// Width of text output, in columns.
pub(crate) const WIDTH: usize = 80;
/// Units that stay on the same line as their numbers; for rates, the last part of the unit.
const UNITS: [&str; 10] = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "FLOP"];

pub(crate) const BOLD: &str = "\x1b[1m";
pub(crate) const DIM: &str = "\x1b[2m";
pub(crate) const GREEN: &str = "\x1b[32m";
pub(crate) const RED: &str = "\x1b[31m";
pub(crate) const RESET: &str = "\x1b[0m";

/// Adds colour to a text if `colours` is set.
pub(crate) fn paint(text: &str, colour: &str, colours: bool) -> String {
    if colours && !colour.is_empty() { format!("{colour}{text}{RESET}") } else { text.to_owned() }
}

/// Formats rows under a heading, with the first `left` columns aligned to the left and the others to the
/// right.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>], left: usize, colours: bool) -> String {
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([heading[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..heading.len()).map(wide).collect();
    let heading: Vec<_> = heading.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = paint(&line(&heading, &widths, left), DIM, colours) + "\n";
    for row in rows {
        text += &line(row, &widths, left);
        text.push('\n');
    }
    text
}

/// Formats cells in columns of the given widths, the first `left` of them aligned to the left.
pub(crate) fn line(cells: &[String], widths: &[usize], left: usize) -> String {
    let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, &width))| {
        if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
}

/// Formats rows under a heading, all aligned to the left, with the last column broken at [`WIDTH`].
pub(crate) fn fitted(heading: &[&str], rows: &[Vec<String>], colours: bool) -> String {
    let text = table(heading, rows, heading.len(), false);
    let last = heading.last().copied().unwrap_or_default();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let indent = first.chars().count().saturating_sub(last.chars().count());
    let rest = lines.map(|line| wrapped(line, [0, indent]));
    paint(first, DIM, colours) + "\n" + &rest.collect::<String>()
}

/// Rows under a heading, shown as text on a terminal or as a table on a page.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Names of the columns.
    pub(crate) heading: Vec<String>,
    /// Cells, row by row.
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of leading columns that are aligned to the left.
    pub(crate) left: usize,
}

impl Grid {
    pub(crate) fn new(heading: &[&str], rows: Vec<Vec<String>>, left: usize) -> Self {
        Self { heading: heading.iter().map(ToString::to_string).collect(), rows, left }
    }

    /// Returns the grid with the cells of the first columns shortened to the given numbers of characters.
    pub(crate) fn shortened(mut self, longest: &[usize]) -> Self {
        for row in &mut self.rows {
            for (cell, &longest) in row.iter_mut().zip(longest) {
                *cell = shorten(cell, longest);
            }
        }
        self
    }

    /// Returns a grid of some of the columns, the first `left` of them aligned to the left.
    pub(crate) fn columns(&self, columns: &[usize], left: usize) -> Self {
        let chosen = |cells: &Vec<String>| {
            columns.iter().filter_map(|&column| cells.get(column).cloned()).collect::<Vec<_>>()
        };
        let rows = self.rows.iter().map(chosen).collect();
        Self { heading: chosen(&self.heading), rows, left }
    }

    /// Formats the grid as [`table`] does.
    pub(crate) fn text(&self, colours: bool) -> String {
        table(&self.names(), &self.rows, self.left, colours)
    }

    /// Returns the grid as an HTML table.
    pub(crate) fn html(&self, caption: &str) -> String {
        cubeyard_draw::plain_table(caption, &self.names(), &self.rows, self.left)
    }

    fn names(&self) -> Vec<&str> {
        self.heading.iter().map(String::as_str).collect()
    }
}

/// Breaks text into lines of at most [`WIDTH`] characters. `first` and `others` are the indents of the first line and
/// of the following lines, in spaces. A number and its unit stay together.
pub(crate) fn wrapped(text: &str, [first, others]: [usize; 2]) -> String {
    let (mut lines, mut line) = (String::new(), " ".repeat(first));
    let text = text.replace('\n', " ");
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut().filter(|last| is_unit(word) && last.ends_with(char::is_numeric)) {
            Some(last) => last.extend([" ", word]),
            None => words.push(word.to_owned()),
        }
    }
    let mut is_empty = true;
    for word in &words {
        let room = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if room > WIDTH && !is_empty {
            lines += &(line + "\n");
            (line, is_empty) = (" ".repeat(others), true);
        }
        line += if is_empty { "" } else { " " };
        line += word;
        is_empty = false;
    }
    lines + &line + "\n"
}

/// Returns whether a word is a unit, optionally followed by punctuation.
fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ':', ')']);
    UNITS.contains(&word) || word.ends_with("B/s") || word.ends_with("FLOP/s")
}

/// Formats a time in nanoseconds with a suitable unit.
pub(crate) fn time(ns: f64) -> String {
    Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span)
}

/// Formats a size with its unit.
pub(crate) fn bytes(bytes: u64) -> String {
    cubeyard_memory::Bytes::new(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_at_the_width() {
        let text = wrapped(&"word ".repeat(40), [2, 4]);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("  word word"), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("    word"), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }

    #[test]
    fn a_number_and_its_unit_stay_on_one_line() {
        for unit in ["%)", "GB/s,", "µs", "TFLOP/s"] {
            let text = wrapped(&format!("{} 12 {unit} more", "a".repeat(75)), [0, 0]);
            let expected = format!("{}\n12 {unit} more\n", "a".repeat(75));
            assert_eq!(text, expected);
        }
    }
}
