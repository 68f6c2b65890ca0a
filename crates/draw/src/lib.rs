//! Charts and pages: text, axes and marks in SVG, and one HTML page in light and dark.

pub mod axis;
pub mod xml;
