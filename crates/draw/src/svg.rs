//! SVG pictures: shapes and text on an opaque background.
//!
//! Styles are SVG attributes. [`SOFT`], [`GRID`] and [`AXIS`] also name a class, by which [`page`](crate::page())
//! replaces their colours in dark mode; a standalone picture is light.

use std::fmt::Write as _;

use crate::xml::escape;

/// Font family of all pictures.
const FONT: &str =
    "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif";

/// Colour of text and outlines.
pub const INK: &str = "#1f2328";
/// Style of secondary text.
pub const SOFT: &str = "class=\"soft\" fill=\"#59636e\"";
/// Style of grid lines through a plot.
pub const GRID: &str = "class=\"grid\" stroke=\"#d8dee4\"";
/// Style of the axes of a plot.
pub const AXIS: &str = "class=\"axis\" fill=\"none\" stroke=\"#59636e\"";
/// Style of text that ends at its point.
pub const END: &str = "text-anchor=\"end\"";
/// Style of text centred on its point.
pub const MIDDLE: &str = "text-anchor=\"middle\"";

/// Colours of lines that readers with any kind of colour vision can distinguish (Okabe and Ito), without the yellow
/// that is too light for a line.
pub const COLOURS: [&str; 7] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4b5563"];

/// Returns the colour of the line with this index; colours repeat after seven.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Rectangle parallel to the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Coordinate of the left edge.
    pub x: f64,
    /// Coordinate of the top edge.
    pub y: f64,
    /// Horizontal extent, in user units of the picture.
    pub width: f64,
    /// Vertical extent, in user units of the picture.
    pub height: f64,
}

impl Area {
    /// Creates a rectangle centred at a point.
    pub fn centred(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x: x - width / 2.0, y: y - height / 2.0, width, height }
    }

    /// Returns the centre.
    pub fn middle(self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    /// Returns the right edge.
    pub fn right(self) -> f64 {
        self.x + self.width
    }

    /// Returns the bottom edge.
    pub fn bottom(self) -> f64 {
        self.y + self.height
    }
}

/// Elements of a picture in drawing order, one per line.
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    elements: String,
}

impl Canvas {
    /// Appends ready-made markup.
    pub fn push(&mut self, markup: &str) {
        writeln!(self.elements, "{markup}").expect("writing to a string never fails");
    }

    /// Appends the elements of `other`.
    pub fn append(&mut self, other: &Self) {
        self.elements.push_str(&other.elements);
    }

    /// Draws a path.
    pub fn path(&mut self, d: &str, style: &str) {
        self.push(&format!("<path d=\"{d}\" {style}/>"));
    }

    /// Draws a rectangle, with coordinates rounded to hundredths.
    pub fn rect(&mut self, area: Area, style: &str) {
        let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(hundredths);
        self.push(&format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {style}/>"
        ));
    }

    /// Writes text whose baseline begins, ends or is centred at a point, according to the style.
    pub fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        let (x, y, text) = (hundredths(x), hundredths(y), escape(text));
        self.push(&format!("<text x=\"{x}\" y=\"{y}\" {style}>{text}</text>"));
    }

    /// Returns the elements, for placement in another element.
    pub fn into_elements(self) -> String {
        self.elements
    }

    /// Returns a self-contained picture with a white background.
    pub fn finish(self, title: &str, width: f64, height: f64) -> String {
        let (title, elements) = (escape(title), self.elements);
        format!(
            "<svg class=\"picture\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"{FONT}\" font-size=\"12\" fill=\"{INK}\" role=\"img\">\n\
             <title>{title}</title>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             {elements}</svg>\n"
        )
    }
}

/// Rounds a coordinate to hundredths, so that its text is short.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_coordinates_are_short() {
        let mut canvas = Canvas::default();
        canvas.text(1.0 / 3.0, 2.0, END, "a<b");
        canvas.rect(Area::centred(10.0, 10.0, 4.0, 5.0), "fill=\"none\"");
        assert_eq!(
            canvas.into_elements(),
            "<text x=\"0.33\" y=\"2\" text-anchor=\"end\">a&lt;b</text>\n\
             <rect x=\"8\" y=\"7.5\" width=\"4\" height=\"5\" fill=\"none\"/>\n"
        );
    }
}
