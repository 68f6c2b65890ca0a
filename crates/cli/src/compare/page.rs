//! Comparisons as an HTML page.

use cubeyard_bench::compare::{Comparison, Difference, Pair, RowComparison};
use cubeyard_draw::svg::{Area, Canvas, END, colour};
use cubeyard_draw::xml::{escape, shorten};
use cubeyard_draw::{cell, number, page, section, table};
use cubeyard_units::text::percent_column;

use super::table::{change, points, time, value};

/// Largest number of times whose parts are drawn.
const MOST: usize = 24;
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 90.0;
const BAR: f64 = 34.0;

pub(super) fn render(names: &[String; 2], comparison: &Comparison) -> String {
    let [a, b] = names;
    let mut main =
        vec![format!("<h1>A and B</h1>\n<p>A: {}<br/>B: {}</p>\n", escape(a), escape(b))];
    main.extend(comparison.most_changed().map(|row| {
        let (name, cause) = (escape(&row.name), escape(&row.cause()));
        format!("<p class=\"verdict\">{name}: {cause}</p>\n")
    }));
    main.push(section("Differences in the input", &inputs(comparison)));
    main.push(section("Times", &times(comparison)));
    main.extend(comparison.rows.iter().take(MOST).map(|row| section(&row.name, &details(row))));
    page(&format!("{a} and {b}"), "", &main.concat(), "")
}

fn inputs(comparison: &Comparison) -> String {
    let row = |it: &Difference| {
        let [a, b] = it.values.each_ref().map(|it| cell(&value(it.as_ref())));
        format!("<tr>{}{a}{b}</tr>\n", cell(&it.name))
    };
    let rows: Vec<_> = comparison.inputs.iter().chain(&comparison.machine).map(row).collect();
    let sides = ["A", "B"].iter().zip(&comparison.unreachable);
    let warned = sides.flat_map(|(side, all)| all.iter().map(move |it| format!("{side}: {it}")));
    let warned: Vec<_> = warned.map(|text| remark(&text)).collect();
    table("inputs", "<th>input</th><th>A</th><th>B</th>", &rows.concat()) + &warned.concat()
}

fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", escape(text))
}

fn times(comparison: &Comparison) -> String {
    let row = |row: &RowComparison| {
        let [a, b] = row.time_ns.map(|ns| number(&time(ns)));
        let ratio = row.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        format!("<tr>{}{a}{b}{}</tr>\n", cell(&row.name), number(&ratio))
    };
    let rows: Vec<_> = comparison.rows.iter().map(row).collect();
    let head =
        "<th>time</th><th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">B / A</th>";
    table("times", head, &rows.concat())
}

fn details(row: &RowComparison) -> String {
    let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), percent_column);
    let mut parts = vec![format!("<p>{}</p>\n", escape(&row.cause()))];
    for (side, limit) in ["A", "B"].iter().zip(&row.limited_by) {
        parts.extend(limit.as_ref().map(|it| remark(&format!("{side} is limited by {it}"))));
    }
    if !row.path_ns.is_empty() {
        parts.push(format!("<div class=\"wide\">{}</div>\n", bars(row)));
    }
    parts.push(pairs("critical path", &row.path_ns, time, &change));
    parts.push(pairs("utilisation", &row.utilisation, share, &points));
    parts.push(pairs("bound", &row.bounds_ns, time, &change));
    parts.concat()
}

fn pairs(
    heading: &str,
    pairs: &[Pair],
    shown: fn(Option<f64>) -> String,
    change: &dyn Fn(&Pair) -> String,
) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let row = |pair: &Pair| {
        let [a, b] = pair.values.map(|value| number(&shown(value)));
        format!("<tr>{}{a}{b}{}</tr>\n", cell(&pair.name), number(&change(pair)))
    };
    let rows: Vec<_> = pairs.iter().map(row).collect();
    let head = format!(
        "<th>{heading}</th><th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n\">B − A</th>"
    );
    table("pairs", &head, &rows.concat())
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
            canvas.rect(area, &format!("fill=\"{}\"", colour(place)));
            canvas.push("</g>");
            if width > 70.0 {
                let style = "fill=\"#ffffff\" style=\"fill:#fff\" font-size=\"12\"";
                canvas.text(x + 6.0, y + BAR / 2.0 + 4.0, style, &shorten(&part.name, 14));
            }
            x += width;
        }
    }
    let title = format!("Critical paths of A and B: {}", row.name);
    canvas.finish(&title, WIDTH, 16.0 + 2.0 * (BAR + 12.0))
}
