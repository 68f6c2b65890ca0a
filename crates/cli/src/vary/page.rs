//! Studies as a page: the chart, and the table of its points.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};
use cubeyard_draw::svg::colour;
use cubeyard_draw::{header, page, plain_table, section};

use super::chart::{LOGARITHMIC, Series, growing, series, svg, title};
use super::table::share;
use super::{Outcome, Study};
use crate::grid::time;

/// Picoseconds of a microsecond.
const MICROSECOND: f64 = 1e6;

/// Draws the chart with the table of its points below.
pub(super) fn page_of(study: &Study) -> String {
    let title = title(study);
    let failed = study.outcomes.iter().filter(|it| it.is_err()).count();
    let verdict = if failed == 0 { String::new() } else { format!("{failed} points failed.") };
    let main = [
        header(&title, &format!("{} points", study.grid.len()), &verdict),
        section(&format!("Time over {}", study.grid.axes()[0].0), &figure(study)),
        section("Points", &points(study)),
    ];
    page(&title, "", &main.concat(), "")
}

/// Returns a chart if the values of the first key are numbers that grow, and else the picture.
fn figure(study: &Study) -> String {
    let (picture, lines) = (svg(study), series(study));
    let Some(positions) = growing(&study.grid.axes()[0].1).filter(|_| !lines.is_empty()) else {
        return format!("<div class=\"wide\">{picture}</div>\n");
    };
    let is_wide =
        positions[0] > 0.0 && positions[positions.len() - 1] / positions[0] >= LOGARITHMIC;
    let spacing = if is_wide { Spacing::Decimal } else { Spacing::Linear };
    let across = Axis { label: "", quantity: Quantity::Count, spacing };
    let up = Axis { label: "time", quantity: Quantity::Microseconds, spacing: Spacing::Linear };
    let lines = lines.iter().enumerate().map(|(at, it)| line(at, it, positions.len())).collect();
    Chart { title: title(study), across, up, positions, lines }.figure(&picture)
}

fn line(at: usize, (name, points): &Series, positions: usize) -> Line {
    let mut values = vec![f64::NAN; positions];
    for (place, ps) in points {
        values[*place] = ps / MICROSECOND;
    }
    let (name, colour, dash) = (name.clone(), colour(at).to_owned(), String::new());
    Line { name, colour, dash, width: 2.5, shape: Shape::Dotted, values }
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

/// Returns name, time and share of the bound for each result of a point.
fn results(outcome: &Outcome) -> Vec<[String; 3]> {
    let cells = |it: &Measured| [it.name.clone(), time(it.time_ns), share(it)];
    match outcome {
        Ok(it) => Measured::all(&it.record).iter().map(cells).collect(),
        Err(error) => vec![[error.clone(), "failed".to_owned(), "–".to_owned()]],
    }
}
