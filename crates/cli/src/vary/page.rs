//! Studies as an HTML page: the chart, and the table of its points.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::{header, page, plain_table, section};

use super::chart::{chart, title};
use super::table::share;
use super::{Outcome, Study};
use crate::grid::time;

/// Draws the chart, followed by the table of its points.
pub(super) fn page_of(study: &Study) -> String {
    let title = title(study);
    let failed = study.outcomes.iter().filter(|it| it.is_err()).count();
    let verdict = if failed == 0 { String::new() } else { format!("{failed} points failed.") };
    let main = [
        header(&title, &format!("{} points", study.grid.len()), &verdict),
        section(&format!("Time over {}", study.grid.axes()[0].0), &chart(study).figure()),
        section("Points", &points(study)),
    ];
    page(&title, "", &main.concat(), "")
}

fn points(study: &Study) -> String {
    let keys = study.grid.keys();
    let heading: Vec<_> = keys.chain(["of", "time", "of bound"]).collect();
    let rows = study.points().flat_map(|(point, outcome)| {
        let values: Vec<_> = point.iter().map(|(_, value)| (*value).clone()).collect();
        results(outcome).into_iter().map(move |cells| [values.clone(), cells.into()].concat())
    });
    plain_table("All points", &heading, &rows.collect::<Vec<_>>(), heading.len() - 2)
}

/// Returns the name, the time and the share of the bound for each result of a point.
fn results(outcome: &Outcome) -> Vec<[String; 3]> {
    let cells = |it: &Measured| [it.name.clone(), time(it.time_ns), share(it)];
    match outcome {
        Ok(it) => Measured::all(&it.record).iter().map(cells).collect(),
        Err(error) => vec![[error.clone(), "failed".to_owned(), "–".to_owned()]],
    }
}
