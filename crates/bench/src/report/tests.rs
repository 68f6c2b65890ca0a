//! Pages of any report are well-formed, limited in size, and have valid coordinates.

mod pages;
mod random;
mod sample;

use roxmltree::{Document, Node, ParsingOptions};

/// Attributes that hold numbers, paths and transforms.
const DRAWN: [&str; 15] = [
    "x",
    "y",
    "width",
    "height",
    "cx",
    "cy",
    "r",
    "rx",
    "d",
    "viewBox",
    "transform",
    "x1",
    "x2",
    "fill-opacity",
    "data-end",
];

/// Parses a page strictly and checks that all its coordinates are valid.
fn checked(page: &str, check: impl FnOnce(&Document<'_>)) {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: u32::MAX };
    let document = Document::parse_with_options(page, options).expect("XML");
    let mut seen = 0;
    for node in document.descendants() {
        for attribute in node.attributes().filter(|it| DRAWN.contains(&it.name())) {
            seen += numbers(attribute.value(), node);
        }
    }
    assert!(seen > 0 || !page.contains("<svg"), "nothing was looked at");
    check(&document);
}

/// Returns the number of numbers in an attribute, each of which must be finite and near the picture.
fn numbers(value: &str, node: Node<'_, '_>) -> usize {
    let value = value.replace("translate", " ").replace("rotate", " ");
    let words = value.split(|c: char| c.is_ascii_whitespace() || "MLHVZh()".contains(c));
    let words = words.filter(|word| !word.is_empty());
    let numbers: Vec<f64> = words.map(|word| word.parse().unwrap_or(f64::NAN)).collect();
    let limit = if node.has_attribute("data-end") { f64::MAX } else { 20_000.0 };
    let fine = numbers.iter().all(|number| number.is_finite() && number.abs() <= limit);
    assert!(fine, "{value} in <{}>", node.tag_name().name());
    let negative = ["width", "height"]
        .iter()
        .any(|name| node.attribute(*name).is_some_and(|length| length.starts_with('-')));
    assert!(!negative, "{node:?}");
    numbers.len()
}
