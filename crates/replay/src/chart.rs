//! Charts of reports: live and reserved bytes over time, as SVG or on a page.

mod blocks;
mod colours;
mod lines;
mod map;
mod memory;
mod page;

pub use self::page::html;

use super::Report;
use cubeyard_draw::chart::{HEIGHT, WIDTH};
use cubeyard_draw::svg::Canvas;
use lines::chart;

/// Draws one SVG picture with a chart for each report, one below the other.
pub fn svg(reports: &[Report]) -> String {
    let mut canvas = Canvas::default();
    for (place, report) in reports.iter().enumerate() {
        canvas.push(&format!("<g transform=\"translate(0 {})\">", HEIGHT * place as f64));
        chart(report).draw(&mut canvas);
        canvas.push("</g>");
    }
    let height = HEIGHT * reports.len().max(1) as f64;
    canvas.finish("Live and reserved memory under each policy", WIDTH, height)
}

#[cfg(test)]
mod tests;
