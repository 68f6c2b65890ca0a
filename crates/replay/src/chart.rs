//! Pictures of reports: live and reserved bytes over time, as SVG or as a page that holds them.

mod blocks;
mod figure;
mod map;
mod memory;
mod page;
mod panel;

pub use self::page::html;

use super::Report;
use cubeyard_draw::svg::Canvas;
use panel::Panel;

/// Width of a picture in its own units.
const WIDTH: f64 = 1000.0;
/// Height of the chart of one trace.
const PANEL_HEIGHT: f64 = 420.0;

/// Draws one SVG picture with a chart for each report, one below the other.
pub fn svg(reports: &[Report]) -> String {
    let mut canvas = Canvas::default();
    for (place, report) in reports.iter().enumerate() {
        canvas.push(&format!("<g transform=\"translate(0 {})\">", PANEL_HEIGHT * place as f64));
        Panel::new(report).draw(&mut canvas);
        canvas.push("</g>");
    }
    let height = PANEL_HEIGHT * reports.len().max(1) as f64;
    canvas.finish("Live and reserved memory under each policy", WIDTH, height)
}

#[cfg(test)]
mod tests;
