//! Pages of the server by address: a file of records, and the comparison of two runs.

use cubeyard_draw::xml::escape;
use cubeyard_draw::{header, page, section};
use hyper::StatusCode;

use super::answer::Answer;
use super::files::Served;
use super::records::shown;
use super::request::values;
use super::runs::{self, Machines, Run};
use super::{index, result};
use crate::compare::ComparedRecords;

/// Shows a JSON file: the result of a run, the table of several runs, or the values of anything else. The query names
/// one run of several, as in `record=3`.
pub(super) fn record(served: &Served, name: &str, query: &str) -> Answer {
    let Ok(file) = served.open(name) else { return Answer::missing() };
    let found = match runs::read(file) {
        Err(error) => {
            let body = section("Error", &format!("<p>{}</p>\n", escape(&error)));
            return Answer::page(page(name, "", &(header(name, "", "") + &body), ""));
        }
        Ok(found) => found,
    };
    let Some(runs) = runs::of_values(name, &found) else {
        let body = section("Values", &shown(&found));
        return Answer::page(page(name, "", &(header(name, "", "") + &body), ""));
    };
    match (&runs[..], numbered(query)) {
        ([], _) => Answer::page(page(name, "", &header(name, "no records", ""), "")),
        ([one], None) => Answer::page(result::page_of(one, &Machines::new())),
        (_, Some(number)) => match number.checked_sub(1).and_then(|at| runs.get(at)) {
            Some(run) => Answer::page(result::page_of(run, &Machines::new())),
            None => Answer::missing(),
        },
        _ => Answer::page(index::of_file(name, &runs)),
    }
}

/// Returns the number of a record in a query, counted from 1.
fn numbered(query: &str) -> Option<usize> {
    values(query, "record")?.first()?.parse().ok()
}

/// Compares the two runs that a query names, as in `run=a.json&run=b.jsonl:2`.
pub(super) fn compared(served: &Served, query: &str) -> Answer {
    let refused = |problem: &str| {
        let help = format!("{problem}\nhelp: tick two runs on the first page\n");
        Answer::refusal(StatusCode::BAD_REQUEST, &help)
    };
    let names = values(query, "run").map(<[String; 2]>::try_from);
    let names = match names {
        Some(Ok(names)) => names,
        Some(Err(names)) => return refused(&format!("expected two runs, found {}", names.len())),
        None => return refused("expected names of runs in UTF-8"),
    };
    let found = names.each_ref().map(|name| runs::named(served, name));
    match found {
        [Some(Run { record: a, .. }), Some(Run { record: b, .. })] => {
            Answer::page(ComparedRecords::new(names, [a, b]).page())
        }
        [a, _] => {
            let name = &names[usize::from(a.is_some())];
            refused(&format!("{name}: expected a run of a file that --save has written"))
        }
    }
}
