//! Comparisons as an HTML page.

use cubeyard_bench::compare::{Comparison, RowComparison, path_bars, timelines};
use cubeyard_bench::record::Record;
use cubeyard_draw::xml::escape;
use cubeyard_draw::{activity, header, page, remark, section, tile, tiles};

use super::table::{
    all_times, errors, figures, inputs, limits, ratio, time, unknown_inputs, warnings,
};

/// Maximum number of times whose parts are drawn.
const MOST: usize = 24;

/// Draws the verdict, both timelines on one axis, the parts, utilisation and bounds of each time, and the inputs.
pub(super) fn render(
    title: &str,
    names: &[String; 2],
    [first, second]: &[Record; 2],
    comparison: &Comparison,
) -> String {
    let [a, b] = names;
    let timelines = timelines(first, second).unwrap_or_default();
    let main = [
        header(title, &format!("A: {a}; B: {b}"), &comparison.verdict()),
        comparison.most_changed().map(key_figures).unwrap_or_default(),
        section("Timelines", &timeline_figure(&timelines)),
        comparison.rows.iter().take(MOST).map(details).collect(),
        left_out(comparison),
        section("Times", &all_times(comparison).html("Times of A and B")),
        section("Input", &differences(comparison)),
    ];
    page(title, activity::STYLE, &main.concat(), "")
}

/// Draws the units of the PE that ends last on both machines; empty without operations.
fn timeline_figure(timelines: &activity::Activity) -> String {
    let figure = timelines.figure("Units of the PE that ends last, in A and in B");
    if figure.is_empty() {
        return figure;
    }
    let text = "Units of the PE that ends last, in A above and in B below, on one axis of time";
    figure + &remark(text)
}

fn key_figures(row: &RowComparison) -> String {
    let [a, b] = row.time_ns.map(time);
    let change = tile("B / A", &ratio(row), "below 1: B is faster");
    tiles(&(tile("time of A", &a, &row.name) + &tile("time of B", &b, &row.name) + &change))
}

fn differences(comparison: &Comparison) -> String {
    let table = inputs(comparison).map(|grid| grid.html("Differences in the input"));
    let table = table.unwrap_or_else(|| remark(unknown_inputs(comparison)));
    let remarks = warnings(comparison).into_iter().chain(errors(comparison));
    table + &remarks.map(|text| remark(&text)).collect::<String>()
}

/// Draws the critical paths of a time, and its figures side by side.
fn details(row: &RowComparison) -> String {
    let title = format!("Critical paths of A and B: {}", row.name);
    let bars = path_bars(row).figure(&title);
    let picture = match &bars[..] {
        "" => String::new(),
        bars => format!("<h3>{}</h3>\n{bars}", escape(&title)),
    };
    let text = |text: String| format!("<p>{}</p>\n", escape(&text));
    let parts = [
        text(row.verdict()),
        picture,
        figures(row).iter().map(|grid| grid.html(&capital(&grid.heading[0]))).collect(),
        Some(row.background()).filter(|it| !it.is_empty()).map(text).unwrap_or_default(),
        limits(row).iter().map(|text| remark(text)).collect(),
    ];
    section(&row.name, &parts.concat())
}

fn left_out(comparison: &Comparison) -> String {
    match comparison.rows.len().saturating_sub(MOST) {
        0 => String::new(),
        more => remark(&format!("{more} more times are only in the table; --format json has all")),
    }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}
