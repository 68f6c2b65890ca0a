//! Pictures of reports: live and reserved bytes over time, as SVG or as a page that holds them.
//!
//! Both are complete in themselves: no script, no font and no style sheet from elsewhere. They bring
//! their own background, so they can be read in light and dark surroundings.

mod axis;
mod labels;
mod page;
mod panel;

use std::fmt::Write as _;

pub use self::page::html;

use super::Report;
use panel::Panel;

/// How wide a picture is, in its own units.
const WIDTH: f64 = 1000.0;
/// How high the part for one trace is.
const PANEL_HEIGHT: f64 = 420.0;

/// One SVG picture with a chart for each report, one below the other.
pub fn svg(reports: &[Report]) -> String {
    let height = PANEL_HEIGHT * reports.len().max(1) as f64;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', \
         Helvetica, Arial, sans-serif\" font-size=\"12\" role=\"img\">\n<title>Live and reserved memory \
         under each policy</title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (place, report) in reports.iter().enumerate() {
        let top = PANEL_HEIGHT * place as f64;
        write!(picture, "<g transform=\"translate(0 {top})\">\n{}</g>\n", Panel::new(report))
            .expect("text can always be appended to");
    }
    picture + "</svg>\n"
}

#[cfg(test)]
mod tests;
