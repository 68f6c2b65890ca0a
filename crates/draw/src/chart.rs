//! Line charts: one description, drawn as a picture and as a figure of a page.
//!
//! A figure holds the picture, for print and for readers without scripts, and the same numbers in packed form. From
//! these, the script of a page draws the chart with zoom, values under the pointer, and lines that can be switched off.

mod quantity;
mod still;

use std::fmt::Write as _;

use crate::pack::pack;
use crate::svg::{COLOURS, Canvas, END, SOFT, colour};
use crate::xml::{escape, shorten};

use still::{PLOT, Still};

pub use quantity::Quantity;

/// Width of a picture, in pixels.
pub const WIDTH: f64 = 1000.0;
/// Height of a picture, in pixels.
pub const HEIGHT: f64 = 460.0;
/// Longest title of a picture, in characters.
const LONGEST_TITLE: usize = 90;
/// Dash patterns of lines; the next one is used each time the colours repeat.
const DASHES: [&str; 3] = ["", "8 4", "2 4"];

/// Chart of lines over a common axis.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Title of the picture.
    pub title: String,
    /// Remark below the title of the picture; empty for none.
    pub remark: String,
    /// Heading of the figures beside the lines; empty for none.
    pub heading: &'static str,
    /// Horizontal axis, of the positions.
    pub across: Axis,
    /// Vertical axis, of the values.
    pub up: Axis,
    /// Positions in ascending order. Each line has a value or a gap at every position.
    pub positions: Vec<f64>,
    /// Names that replace the numbers of the positions; empty if positions are numbers.
    pub names: Vec<String>,
    /// Lines in drawing order.
    pub lines: Vec<Line>,
}

/// Axis with its label, and the format and spacing of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Text beside the axis; empty for none.
    pub label: String,
    /// Quantity of the values.
    pub quantity: Quantity,
    /// Spacing of the values.
    pub spacing: Spacing,
}

/// Spacing of values on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences have equal lengths.
    Linear,
    /// Equal ratios have equal lengths, with ticks at powers of two.
    Binary,
    /// Equal ratios have equal lengths, with ticks at powers of ten.
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

/// Line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the line.
    pub name: String,
    /// Colour as `#rrggbb`.
    pub colour: String,
    /// Lengths of dashes and gaps, as in SVG; empty for a solid line.
    pub dash: String,
    /// Width of the line, in pixels.
    pub width: f64,
    /// Shape of the line between its points.
    pub shape: Shape,
    /// Value at each position; NaN where there is none.
    pub values: Vec<f64>,
    /// Figures beside the end of the line in the picture; the last value if `None`.
    pub figures: Option<String>,
    /// Whether the line is emphasized.
    pub is_bold: bool,
    /// Whether the line ends early, which is marked by a cross.
    pub is_broken: bool,
}

/// Shape of a line between its points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Straight between dots.
    Dotted,
    /// Dots without a line.
    Scattered,
    /// Constant up to the next point.
    Stepped,
    /// Constant up to the next point, with the area below it filled.
    Filled,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Dotted => "dotted",
            Self::Scattered => "scattered",
            Self::Stepped => "stepped",
            Self::Filled => "stepped filled",
        }
    }
}

impl Axis {
    /// Creates an axis.
    pub fn new(label: &str, quantity: Quantity, spacing: Spacing) -> Self {
        Self { label: label.to_owned(), quantity, spacing }
    }
}

impl Chart {
    /// Creates a chart of lines over numbers, without a remark.
    pub fn new(title: String, [across, up]: [Axis; 2], positions: Vec<f64>) -> Self {
        let (remark, heading, names, lines) = (String::new(), "", Vec::new(), Vec::new());
        Self { title, remark, heading, across, up, positions, names, lines }
    }

    /// Draws the picture on a canvas at its top left corner, [`WIDTH`] by [`HEIGHT`] pixels.
    pub fn draw(&self, canvas: &mut Canvas) {
        let left = PLOT.area.x;
        canvas.text(left, 28.0, "font-size=\"16\"", &shorten(&self.title, LONGEST_TITLE));
        canvas.text(left, 47.0, SOFT, &self.remark);
        canvas.text(PLOT.right, 47.0, &format!("{SOFT} {END}"), self.heading);
        if let Some(still) = Still::new(self) {
            still.draw(canvas);
        }
    }

    /// Returns the picture as SVG.
    pub fn svg(&self) -> String {
        let mut canvas = Canvas::default();
        self.draw(&mut canvas);
        canvas.finish(&self.title, WIDTH, HEIGHT)
    }

    /// Returns the figure for a page; the picture alone if no line has two points.
    pub fn figure(&self) -> String {
        if self.positions.len() < 2 || self.lines.is_empty() {
            return format!("<div class=\"wide\">{}</div>\n", self.svg());
        }
        let Self { across, up, .. } = self;
        let lines: String = self.lines.iter().map(Line::item).collect();
        format!(
            "<figure class=\"chart\" aria-label=\"{}\" data-x-label=\"{}\" data-x-unit=\"{}\" data-x-scale=\"{}\" \
             data-y-label=\"{}\" data-y-unit=\"{}\" data-y-scale=\"{}\">\n<div class=\"wide still\">{}</div>\n\
             <div class=\"drawn\"></div>\n<p class=\"at\"></p>\n<ul class=\"lines\">\n{lines}</ul>\n{}\
             <script type=\"text/plain\" class=\"packed\">{}</script>\n</figure>\n",
            escape(&self.description()),
            escape(&across.label),
            across.quantity.name(),
            across.spacing.name(),
            escape(&up.label),
            up.quantity.name(),
            up.spacing.name(),
            self.svg(),
            self.name_list(),
            pack(&self.bytes())
        )
    }

    /// Returns the title and the remark, for screen readers.
    fn description(&self) -> String {
        let remark = Some(&self.remark).filter(|remark| !remark.is_empty());
        self.title.clone() + &remark.map_or_else(String::new, |remark| format!(": {remark}"))
    }

    /// Returns the names of positions for the script; empty if they are numbers.
    fn name_list(&self) -> String {
        if self.names.is_empty() {
            return String::new();
        }
        let names: Vec<_> = self.names.iter().map(|name| escape(name)).collect();
        let names = names.join("</li>\n<li>");
        format!("<ol class=\"names\" hidden=\"hidden\">\n<li>{names}</li>\n</ol>\n")
    }

    /// Returns the numbers in the format of the script: positions, then the values of each line.
    fn bytes(&self) -> Vec<u8> {
        let values = self.lines.iter().flat_map(|line| &line.values);
        self.positions.iter().chain(values).flat_map(|value| value.to_le_bytes()).collect()
    }
}

impl Line {
    /// Creates the line with this number: straight between dots, with a distinct colour and dash pattern.
    pub fn new(number: usize, name: String, values: Vec<f64>) -> Self {
        let dash = DASHES[number / COLOURS.len() % DASHES.len()].to_owned();
        Self {
            name,
            colour: colour(number).to_owned(),
            dash,
            width: 2.5,
            shape: Shape::Dotted,
            values,
            figures: None,
            is_bold: false,
            is_broken: false,
        }
    }

    /// Returns the colour and the dash pattern as SVG attributes of a path.
    fn stroke(&self) -> String {
        let Self { colour, dash, .. } = self;
        let dash = if dash.is_empty() { "none" } else { dash };
        format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\"")
    }

    fn item(&self) -> String {
        let mut item = format!("<li data-colour=\"{}\" data-width=\"{}\"", self.colour, self.width);
        write!(item, " data-dash=\"{}\" data-shape=\"{}\">", self.dash, self.shape.name())
            .expect("writing to a string never fails");
        item + &escape(&self.name) + "</li>\n"
    }
}

#[cfg(test)]
mod tests;
