//! Text made fit for a page, and the parts that all pictures share.

pub(crate) use cubeyard_memory::replay::chart::xml::escape;
pub(super) use cubeyard_memory::replay::chart::xml::shorten;

use super::SliceKind;

/// How wide a picture is, in its own units.
pub(super) const WIDTH: f64 = 1080.0;

/// [`escape`]d, and with percentages that stay in one line.
pub(super) fn joined(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// A picture with a title for those who cannot see it.
pub(super) fn picture(class: &str, title: &str, height: f64, body: &str) -> String {
    format!(
        "<svg class=\"{class}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{title}\">\n{body}</svg>\n"
    )
}

/// A section of the page; nothing where there is nothing to show.
pub(super) fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

/// A table whose head and rows are cells already made by [`cell`] and [`head`].
pub(super) fn table(class: &str, head: &str, rows: &str) -> String {
    format!(
        "<div class=\"wide\"><table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// A cell of text.
pub(super) fn cell(text: &str) -> String {
    format!("<td>{}</td>", escape(text))
}

/// A cell of a number, which stands at the right.
pub(super) fn number(text: &str) -> String {
    format!("<td class=\"n\">{}</td>", escape(text))
}

/// A bar from 0 to 1 for a cell: a pale one behind, and a full one before it.
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

/// The class that has the colour of this kind.
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

/// A small square of the colour of this kind.
pub(super) fn swatch(kind: SliceKind) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">\
         <rect class=\"{}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>",
        class(kind)
    )
}

/// The colours of kinds, with their names and perhaps figures.
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
