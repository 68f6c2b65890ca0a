//! HTML page of a sweep: the chart, followed by its table.

use super::chart::{STRIPED, chart, title};
use super::{Row, Sweep};
use cubeyard_draw::{header, plain_table, remark, section};
use cubeyard_units::text::{bytes, percent_column, quantity};

const HEADING: [&str; 8] =
    ["algorithm", "size", "bytes", "time µs", "algbw GB/s", "busbw GB/s", "of bound", "wrong"];

/// Draws the chart and the table as an HTML page.
pub fn page(sweep: &Sweep) -> String {
    let title = title(sweep);
    let rows: Vec<_> = sweep.rows.iter().map(cells).collect();
    let table = plain_table("Sizes and algorithms", &HEADING, &rows, 1);
    let main = [
        header(&title, &summary(sweep), &verdict(sweep)),
        section("Bus bandwidth over size", &figure(sweep)),
        section("Measurements", &(table + &left_out(sweep))),
    ];
    cubeyard_draw::page(&title, "", &main.concat(), "")
}

fn summary(sweep: &Sweep) -> String {
    let grid: Vec<_> = sweep.map.world().grid.iter().map(ToString::to_string).collect();
    format!("{} PEs in each rank, grid {}", sweep.map.positions(), grid.join("×"))
}

/// Returns the fastest algorithms, and the bound.
fn verdict(sweep: &Sweep) -> String {
    let fastest = sweep.winners().into_iter().map(|winner| {
        let (from, to) = (bytes(winner.from), bytes(winner.to));
        let range = if from == to { format!("for {from}") } else { format!("from {from} to {to}") };
        format!("{} {range}", winner.algorithm)
    });
    let fastest = fastest.collect::<Vec<_>>().join(", ");
    let bound = sweep.bound.as_ref();
    let bound = bound.map(|it| format!(" Bound: {} by {it}.", quantity(it.bus, "B/s")));
    format!("Fastest: {fastest}.{}", bound.unwrap_or_default())
}

fn figure(sweep: &Sweep) -> String {
    let chart = chart(sweep);
    let striped = chart.lines.iter().any(|line| line.dash.starts_with(STRIPED));
    let note = if striped {
        remark("Lines that coincide are drawn in stripes of their colours.")
    } else {
        String::new()
    };
    chart.figure() + &note
}

fn cells(row: &Row) -> Vec<String> {
    let known = [row.algorithm.clone(), bytes(row.bytes), row.bytes.to_string()];
    let measured = match &row.figures {
        Err(_) => ["failed", "–", "–", "–", "–"].map(ToOwned::to_owned),
        Ok(figures) => [
            format!("{:.3}", figures.time.ns() / 1e3),
            format!("{:.2}", figures.algorithm_bandwidth / 1e9),
            format!("{:.2}", figures.bus_bandwidth / 1e9),
            figures.share.map_or_else(|| "–".to_owned(), percent_column),
            figures.check.map_or_else(|| "not checked".to_owned(), |check| check.wrong.to_string()),
        ],
    };
    known.into_iter().chain(measured).collect()
}

/// Returns the omitted algorithms, and the reasons for failed measurements.
fn left_out(sweep: &Sweep) -> String {
    let failed = sweep.rows.iter().filter_map(|row| {
        Some((
            format!("{} of {}", row.algorithm, bytes(row.bytes)),
            row.figures.as_ref().err()?.clone(),
        ))
    });
    let item = |(name, why): (String, String)| {
        let text = cubeyard_draw::xml::escape(&format!("{name}: {why}"));
        format!("<li>{text}</li>\n")
    };
    let items: String = sweep.refused.iter().cloned().chain(failed).map(item).collect();
    if items.is_empty() { items } else { format!("<h3>Left out</h3>\n<ul>\n{items}</ul>\n") }
}
