//! Charts of lines, which a page draws with zoom, values under the pointer and lines that can be switched off.
//!
//! A chart is a figure: a picture for print and for readers without scripts, and the numbers, packed, for the script.

use std::fmt::Write as _;

use crate::pack::pack;
use crate::xml::escape;

/// Lines over a common axis.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Title for screen readers.
    pub title: String,
    /// Axis of the positions.
    pub across: Axis,
    /// Axis of the values.
    pub up: Axis,
    /// Positions in ascending order, at which every line has a value or none.
    pub positions: Vec<f64>,
    /// Lines in drawing order.
    pub lines: Vec<Line>,
}

/// An axis: its label, and the way in which its values are written and spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Text beside the axis; empty for none.
    pub label: &'static str,
    /// Quantity of the values.
    pub quantity: Quantity,
    /// Spacing of the values.
    pub spacing: Spacing,
}

/// A quantity whose values are written with the unit that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes, in binary units.
    Bytes,
    /// Bytes per second, with decimal prefixes.
    BytesPerSecond,
    /// Simulated or measured times in microseconds.
    Microseconds,
    /// Numbers of things.
    Count,
}

impl Quantity {
    fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "B/s",
            Self::Microseconds => "us",
            Self::Count => "",
        }
    }
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences are equally long.
    Linear,
    /// Equal ratios are equally long, with ticks at powers of two.
    Binary,
    /// Equal ratios are equally long, with ticks at powers of ten.
    Decimal,
}

impl Spacing {
    fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Binary => "log2",
            Self::Decimal => "log10",
        }
    }
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the line.
    pub name: String,
    /// Colour as `#rrggbb`.
    pub colour: String,
    /// Lengths of dashes and gaps, as in SVG; empty for a solid line.
    pub dash: String,
    /// Width in pixels.
    pub width: f64,
    /// Shape of the line between its points.
    pub shape: Shape,
    /// A value for each position; not a number where there is none.
    pub values: Vec<f64>,
}

/// Shape of a line between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight between dots.
    Dotted,
    /// Constant up to the next point.
    Stepped,
    /// Constant up to the next point, with the area below it filled.
    Filled,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Dotted => "dotted",
            Self::Stepped => "stepped",
            Self::Filled => "stepped filled",
        }
    }
}

impl Chart {
    /// Returns the figure. `picture` is the same chart as SVG.
    pub fn figure(&self, picture: &str) -> String {
        let Self { title, across, up, .. } = self;
        let lines: String = self.lines.iter().map(Line::item).collect();
        format!(
            "<figure class=\"chart\" aria-label=\"{}\" data-x-label=\"{}\" data-x-unit=\"{}\" data-x-scale=\"{}\" \
             data-y-label=\"{}\" data-y-unit=\"{}\" data-y-scale=\"{}\">\n<div class=\"wide still\">{picture}</div>\n\
             <div class=\"drawn\"></div>\n<p class=\"at\"></p>\n<ul class=\"lines\">\n{lines}</ul>\n\
             <script type=\"text/plain\" class=\"packed\">{}</script>\n</figure>\n",
            escape(title),
            across.label,
            across.quantity.name(),
            across.spacing.name(),
            up.label,
            up.quantity.name(),
            up.spacing.name(),
            pack(&self.bytes())
        )
    }

    /// Returns the numbers as the script reads them: positions, then the values of each line.
    fn bytes(&self) -> Vec<u8> {
        let values = self.lines.iter().flat_map(|line| &line.values);
        self.positions.iter().chain(values).flat_map(|value| value.to_le_bytes()).collect()
    }
}

impl Line {
    fn item(&self) -> String {
        let mut item = format!("<li data-colour=\"{}\" data-width=\"{}\"", self.colour, self.width);
        write!(item, " data-dash=\"{}\" data-shape=\"{}\">", self.dash, self.shape.name())
            .expect("writing to a string never fails");
        item + &escape(&self.name) + "</li>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_holds_its_numbers_and_names() {
        let axis = Axis { label: "size", quantity: Quantity::Bytes, spacing: Spacing::Binary };
        let line = Line {
            name: "a<b".to_owned(),
            colour: "#000000".to_owned(),
            dash: String::new(),
            width: 2.0,
            shape: Shape::Dotted,
            values: vec![3.0, f64::NAN],
        };
        let positions = vec![1.0, 2.0];
        let chart =
            Chart { title: "T".to_owned(), across: axis, up: axis, positions, lines: vec![line] };
        let numbers: Vec<_> =
            chart.bytes().chunks(8).map(|it| f64::from_le_bytes(it.try_into().unwrap())).collect();
        assert_eq!(numbers[..3], [1.0, 2.0, 3.0]);
        assert!(numbers[3].is_nan() && numbers.len() == 4);
        let figure = chart.figure("<svg/>");
        assert!(figure.contains("data-shape=\"dotted\">a&lt;b</li>") && figure.contains("<svg/>"));
    }
}
