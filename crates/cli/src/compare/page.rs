//! Comparisons as an HTML page.

use cubeyard_bench::compare::{Comparison, RowComparison};
use cubeyard_bench::report::SliceKind;
use cubeyard_draw::svg::{Area, Canvas, END, colour};
use cubeyard_draw::xml::{escape, shorten};
use cubeyard_draw::{header, page, remark, section, tile, tiles};

use super::table::{
    all_times, cause, errors, figures, inputs, limits, ratio, time, unknown_inputs, warnings,
};

/// Maximum number of times whose parts are drawn.
const MOST: usize = 24;
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 40.0;
const BAR: f64 = 34.0;

/// Draws the differences between the inputs, all times, and the parts, utilisation and bounds of each time.
pub(super) fn render(title: &str, names: &[String; 2], comparison: &Comparison) -> String {
    let [a, b] = names;
    let changed = comparison.most_changed();
    let verdict = changed.map(|row| cause(row, comparison.rows.len() > 1)).unwrap_or_default();
    let main = [
        header(title, &format!("A: {a}; B: {b}"), &verdict),
        changed.map(key_figures).unwrap_or_default(),
        section("Input", &differences(comparison)),
        section("Times", &all_times(comparison).html("Times of A and B")),
        comparison.rows.iter().take(MOST).map(details).collect(),
        left_out(comparison),
    ];
    page(title, "", &main.concat(), "")
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
    let picture = if row.path_ns.is_empty() {
        String::new()
    } else {
        format!("<div class=\"wide\">{}</div>\n", bars(row))
    };
    let parts = [
        format!("<p>{}</p>\n", escape(&row.cause())),
        limits(row).iter().map(|text| remark(text)).collect(),
        picture,
        figures(row).iter().map(|grid| grid.html(&capital(&grid.heading[0]))).collect(),
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

/// Returns the colours of a part and of text on it: those of its unit, or by its place if it is no unit.
fn colours(name: &str, place: usize) -> [&'static str; 2] {
    let unit = SliceKind::named(name).map(|kind| [kind.colour(), kind.text_colour()]);
    unit.unwrap_or_else(|| [colour(place), "#ffffff"])
}

/// Draws the critical paths of A and B as bars of their parts, to the same scale.
fn bars(row: &RowComparison) -> String {
    let most = row.time_ns.iter().flatten().fold(f64::MIN_POSITIVE, |most, time| most.max(*time));
    let mut canvas = Canvas::default();
    for (side, name) in ["A", "B"].iter().enumerate() {
        let y = 16.0 + side as f64 * (BAR + 12.0);
        canvas.text(LEFT - 12.0, y + BAR / 2.0 + 5.0, END, name);
        let mut x = LEFT;
        for (place, part) in row.path_ns.iter().enumerate() {
            let width = part.values[side].unwrap_or_default() / most * (WIDTH - LEFT - 16.0);
            canvas.push(&format!(
                "<g><title>{}: {}</title>",
                escape(&part.name),
                time(part.values[side])
            ));
            let area = Area { x, y, width, height: BAR };
            let [ground, ink] = colours(&part.name, place);
            canvas.rect(area, &format!("fill=\"{ground}\""));
            canvas.push("</g>");
            if width > 70.0 {
                let style = format!("style=\"fill:{ink}\" font-size=\"12\"");
                canvas.text(x + 6.0, y + BAR / 2.0 + 4.0, &style, &shorten(&part.name, 14));
            }
            x += width;
        }
    }
    let title = format!("Critical paths of A and B: {}", row.name);
    canvas.finish(&title, WIDTH, 16.0 + 2.0 * (BAR + 12.0))
}
