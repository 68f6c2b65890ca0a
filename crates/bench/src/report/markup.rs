//! Markup shared by the pictures of a page.

use cubeyard_draw::xml::escape;

use super::SliceKind;

/// Width of a picture, in SVG units.
pub(super) const WIDTH: f64 = 1080.0;

/// Wraps a picture in SVG with an accessible title.
pub(super) fn picture(class: &str, title: &str, height: f64, body: &str) -> String {
    format!(
        "<svg class=\"{class}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{title}\">\n{body}</svg>\n"
    )
}

/// Creates a table cell with two bars from 0 to 1: a pale one behind a solid one.
pub(super) fn bar(kind: &str, behind: f64, before: f64) -> String {
    let width = |share: f64| if share > 0.0 { share.min(1.0) * 100.0 } else { 0.0 };
    format!(
        "<td class=\"bar\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100\" height=\"10\"/>\
         <rect class=\"{kind} pale\" width=\"{:.2}\" height=\"10\"/>\
         <rect class=\"{kind}\" width=\"{:.2}\" height=\"10\"/></svg></td>",
        width(behind),
        width(before)
    )
}

/// Returns the CSS class with the colour of a kind.
pub(super) fn class(kind: SliceKind) -> &'static str {
    match kind {
        SliceKind::Cpu => "k-cpu",
        SliceKind::DmaRead => "k-read",
        SliceKind::DmaWrite => "k-write",
        SliceKind::Fetch => "k-fetch",
        SliceKind::Gemm => "k-gemm",
        SliceKind::Math => "k-math",
        SliceKind::Store => "k-store",
        SliceKind::Message => "k-message",
        SliceKind::Wait => "k-wait",
    }
}

/// Returns the CSS class with the colour of the unit or bound with this name; grey if it is not one unit of a PE.
pub(super) fn unit_class(name: &str) -> &'static str {
    SliceKind::of_unit(name).map_or("grey", class)
}

/// Draws a small square in the colour of a kind.
pub(super) fn swatch(kind: SliceKind) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">\
         <rect class=\"{}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>",
        class(kind)
    )
}

/// Draws a legend of kinds with their names and figures.
pub(super) fn legend(rows: &[(SliceKind, String)]) -> String {
    let item = |(kind, figures): &(SliceKind, String)| {
        let figures = escape(figures);
        format!(
            "<li>{}{} <span class=\"figures\">{figures}</span></li>\n",
            swatch(*kind),
            kind.name()
        )
    };
    format!("<ul class=\"legend\">\n{}</ul>\n", rows.iter().map(item).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stay_within_their_cell() {
        let widths = |bar: &str| -> Vec<f64> {
            let parts = bar.split("width=\"").skip(2);
            parts.map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
        };
        assert_eq!(widths(&bar("k", 0.5, 0.25)), [50.0, 25.0]);
        assert_eq!(widths(&bar("k", f64::INFINITY, -1.0)), [100.0, 0.0]);
        assert_eq!(widths(&bar("k", f64::NAN, f64::NAN)), [0.0, 0.0]);
    }
}
