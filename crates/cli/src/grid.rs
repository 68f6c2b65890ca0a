//! Text tables with aligned columns, a heading and optional colours.

use cubeyard_draw::xml::shorten;

pub(crate) const BOLD: &str = "\x1b[1m";
pub(crate) const DIM: &str = "\x1b[2m";
pub(crate) const GREEN: &str = "\x1b[32m";
pub(crate) const RED: &str = "\x1b[31m";
pub(crate) const RESET: &str = "\x1b[0m";

/// Colours a text, if `colours` is set.
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
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate();
        let padded = padded.map(|(column, (cell, &width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    let heading: Vec<_> = heading.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = paint(&line(&heading), DIM, colours) + "\n";
    for row in rows {
        text += &line(row);
        text.push('\n');
    }
    text
}

/// Rows under a heading, which are text on a terminal and a table on a page.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Names of the columns.
    pub(crate) heading: Vec<String>,
    /// Cells, row by row.
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of the first columns that are aligned to the left.
    pub(crate) left: usize,
}

impl Grid {
    pub(crate) fn new(heading: &[&str], rows: Vec<Vec<String>>, left: usize) -> Self {
        Self { heading: heading.iter().map(ToString::to_string).collect(), rows, left }
    }

    /// Returns it with cells of the first columns shortened to these numbers of characters.
    pub(crate) fn shortened(mut self, longest: &[usize]) -> Self {
        for row in &mut self.rows {
            for (cell, &longest) in row.iter_mut().zip(longest) {
                *cell = shorten(cell, longest);
            }
        }
        self
    }

    /// Formats it as [`table`] does.
    pub(crate) fn text(&self, colours: bool) -> String {
        table(&self.names(), &self.rows, self.left, colours)
    }

    /// Returns a table of a page.
    pub(crate) fn html(&self, caption: &str) -> String {
        cubeyard_draw::plain_table(caption, &self.names(), &self.rows, self.left)
    }

    fn names(&self) -> Vec<&str> {
        self.heading.iter().map(String::as_str).collect()
    }
}

/// Formats a size with its unit.
pub(crate) fn bytes(bytes: u64) -> String {
    cubeyard_memory::Bytes::new(bytes).to_string()
}
