//! Studies as an HTML page: the verdict, the charts, and the table of the points with their parts.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::{header, page, plain_table, remark, section};

use super::chart::{chart, costs, title};
use super::table::{limit, share};
use super::{Outcome, Study, parts, table};
use crate::grid::time;

/// Draws the charts, followed by the table of the points.
pub(super) fn page_of(study: &Study) -> String {
    let title = title(study);
    let failed = study.outcomes.iter().filter(|it| it.is_err()).count();
    let failed = if failed == 0 { String::new() } else { format!("{failed} points failed.") };
    let verdict = [study.designs.verdict(), failed].join(" ");
    let over_cost = costs(study).map_or_else(String::new, |chart| {
        chart.figure() + &remark(&format!("cost = {}", study.cost.as_deref().unwrap_or_default()))
    });
    let of_parts = parts::all(study).map_or_else(String::new, |it| it.html("Parts of the times"));
    let main = [
        header(&title, &format!("{} points", study.grid.len()), verdict.trim()),
        section("Time over cost", &over_cost),
        section(&format!("Time over {}", study.grid.axes()[0].0), &chart(study).figure()),
        section("Points", &points(study)),
        section("Parts", &of_parts),
    ];
    page(&title, "", &main.concat(), "")
}

fn points(study: &Study) -> String {
    let costs: &[&str] = if study.cost.is_some() { &["cost", "front"] } else { &[] };
    let keys: Vec<_> = study.grid.keys().collect();
    let left = keys.len() + 1;
    let heading =
        [&keys, &["of", "time"][..], costs, &["of bound", "bound", "limited by"]].concat();
    let rows = study.points().enumerate().flat_map(|(place, (point, outcome))| {
        let values: Vec<_> = point.iter().map(|(_, value)| (*value).clone()).collect();
        let costs = study.cost.iter().flat_map(|_| table::costs(study, place)).collect::<Vec<_>>();
        results(outcome).into_iter().map(move |[name, time, rest @ ..]| {
            [values.clone(), vec![name, time], costs.clone(), rest.into()].concat()
        })
    });
    plain_table("All points", &heading, &rows.collect::<Vec<_>>(), left)
}

/// Returns the name, the time, the share of the bound, the bound and the limit for each result of a point.
fn results(outcome: &Outcome) -> Vec<[String; 5]> {
    let dash = || "–".to_owned();
    let cells = |it: &Measured| {
        let bound = it.bound().map_or_else(dash, |(name, _)| name.clone());
        [it.name.clone(), time(it.time_ns), share(it), bound, limit(it)]
    };
    match outcome {
        Ok(it) => Measured::all(&it.record).iter().map(cells).collect(),
        Err(error) => vec![[error.clone(), "failed".to_owned(), dash(), dash(), dash()]],
    }
}
