//! Levers on a page: the verdict, and a section with the tables of the text.

use cubeyard_bench::report::Answer;
use cubeyard_draw::{plain_table, section};
use cubeyard_study::levers::Levers;

use super::table::{HEADING, cells, paired, statements};
use crate::page::list;

/// Returns the verdict of the levers, and their tables.
pub(super) fn answer(levers: &Levers, title: &str) -> Answer {
    let table = |caption: &str, rows: &[Vec<String>]| {
        if rows.is_empty() {
            String::new()
        } else {
            ordered(&plain_table(caption, &HEADING, rows, 1))
        }
    };
    let alone = table("Time if one resource is twice as fast", &cells(&levers.levers));
    let pairs = table(&paired(), &cells(&levers.pairs));
    let remarks = statements(levers, false);
    let body = alone + &pairs + &list(remarks.iter().map(String::as_str));
    Answer { verdict: levers.verdict(title), section: section("Levers", &body) }
}

/// Names the class of a table of levers.
fn ordered(table: &str) -> String {
    table.replacen("class=\"\"", "class=\"levers\"", 1)
}
