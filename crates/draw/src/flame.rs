//! Flame graphs: a tree whose boxes are as wide as their share, with the root at the top.
//!
//! A graph is a part of a page. Each box shows its description on hover and on focus. With [`SCRIPT`], the arrow keys
//! move the focus from box to box, and the description of the focused box appears below the graph.

use std::fmt::Write as _;

use crate::svg::{Area, Canvas};
use crate::xml::{escape, shorten};

/// Width of a graph, in user units of its SVG.
const WIDTH: f64 = 1000.0;
/// Height of a row of boxes, in the same units.
const ROW: f64 = 19.0;
/// Width of the narrowest box, in the same units.
const NARROWEST: f64 = 0.6;
/// Mean width of a character, in the same units.
const CHARACTER: f64 = 6.8;

/// Script of pages with flame graphs.
pub const SCRIPT: &str = include_str!("flame.js");

/// Style of pages with flame graphs.
pub const STYLE: &str = ".flame g{outline:none}.flame g:focus rect,.flame g:hover rect{stroke:var(--ink);stroke-width:2}\n\
     .flame text{fill:#1f2328;pointer-events:none}.told{min-height:3em;white-space:pre-line}\n";

/// Box of a flame graph, with the boxes below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Text in the box, shortened to fit.
    pub name: String,
    /// Text shown on hover and on focus.
    pub description: String,
    /// Width of the box, in any unit: at least the sum of the weights of the boxes below it.
    pub weight: u64,
    /// Colour of the box.
    pub colour: &'static str,
    /// Boxes below, from left to right.
    pub children: Vec<Self>,
}

/// Box with its position, and the boxes to which the arrow keys lead.
struct Placed<'n> {
    node: &'n Node,
    area: Area,
    level: usize,
    parent: Option<usize>,
    child: Option<usize>,
    before: Option<usize>,
    after: Option<usize>,
}

/// Draws a flame graph. Boxes too narrow to see are left out.
pub fn flame(title: &str, root: &Node) -> String {
    let mut placed = Vec::new();
    place(root, 0.0, WIDTH / root.weight.max(1) as f64, 0, None, &mut placed);
    let rows = placed.iter().map(|it| it.level + 1).max().unwrap_or(1);
    let mut elements = String::new();
    for (index, it) in placed.iter().enumerate() {
        elements += &it.draw(index);
    }
    let (height, title) = (rows as f64 * ROW, escape(title));
    format!(
        "<div class=\"wide\"><svg class=\"picture flame\" xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-size=\"11\" role=\"tree\" aria-label=\"{title}\">\n{elements}</svg></div>\n\
         <p class=\"remark told\" aria-live=\"polite\">Point at a box, or move with Tab and the arrow keys.</p>\n"
    )
}

/// Places a box and the boxes below it, and returns its index; `None` if it is too narrow.
fn place<'n>(
    node: &'n Node,
    x: f64,
    scale: f64,
    level: usize,
    parent: Option<usize>,
    placed: &mut Vec<Placed<'n>>,
) -> Option<usize> {
    let width = node.weight as f64 * scale;
    if width < NARROWEST {
        return None;
    }
    let area = Area { x, y: level as f64 * ROW, width, height: ROW };
    let (index, mut left, mut before) = (placed.len(), x, None);
    placed.push(Placed { node, area, level, parent, child: None, before: None, after: None });
    for child in &node.children {
        if let Some(found) = place(child, left, scale, level + 1, Some(index), placed) {
            placed[found].before = before;
            match before {
                Some(before) => placed[before].after = Some(found),
                None => placed[index].child = Some(found),
            }
            before = Some(found);
        }
        left += child.weight as f64 * scale;
    }
    Some(index)
}

impl Placed<'_> {
    fn draw(&self, index: usize) -> String {
        let mut canvas = Canvas::default();
        let Area { x, y, width, .. } = self.area;
        let inner = Area { width: (width - 1.0).max(NARROWEST), height: ROW - 1.0, ..self.area };
        canvas.rect(inner, &format!("rx=\"2\" fill=\"{}\"", self.node.colour));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width")]
        let characters = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        if characters >= 5 {
            canvas.text(x + 4.0, y + 13.0, "", &shorten(&self.node.name, characters - 1));
        }
        let mut keys = String::new();
        let ways = [
            ("up", self.parent),
            ("down", self.child),
            ("left", self.before),
            ("right", self.after),
        ];
        for (key, to) in ways {
            if let Some(to) = to {
                write!(keys, " data-{key}=\"{to}\"").expect("writing to a string never fails");
            }
        }
        let (label, level) = (escape(&self.node.description), self.level + 1);
        let tab = if index == 0 { 0 } else { -1 };
        format!(
            "<g class=\"box\" tabindex=\"{tab}\" role=\"treeitem\" aria-level=\"{level}\" aria-label=\"{label}\"{keys}>\
             <title>{label}</title>{}</g>\n",
            canvas.into_elements().replace('\n', "")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, weight: u64, children: Vec<Node>) -> Node {
        let description = format!("{name}: {weight}");
        Node { name: name.to_owned(), description, weight, colour: "#56b4e9", children }
    }

    #[test]
    fn boxes_are_as_wide_as_their_share_and_stand_below_their_parent() {
        let root = node(
            "all",
            100,
            vec![node("a", 60, vec![node("b", 30, vec![])]), node("c", 40, vec![])],
        );
        let drawn = flame("Memory <at> the peak", &root);
        for part in [
            "x=\"0\" y=\"19\" width=\"599\"",
            "x=\"0\" y=\"38\" width=\"299\"",
            "x=\"600\" y=\"19\" width=\"399\"",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(
            drawn.contains("viewBox=\"0 0 1000 57\"")
                && drawn.contains("Memory &lt;at&gt; the peak")
        );
        // From `a`: up to the root, down to `b`, right to `c`.
        assert!(
            drawn.contains("aria-label=\"a: 60\" data-up=\"0\" data-down=\"2\" data-right=\"3\"")
        );
        assert!(drawn.contains("aria-label=\"c: 40\" data-up=\"0\" data-left=\"1\""));
        assert_eq!(drawn.matches("tabindex=\"0\"").count(), 1);
    }

    #[test]
    fn what_is_too_narrow_to_see_is_left_out_and_nothing_at_all_is_a_picture() {
        let root =
            node("all", 1_000_000, vec![node("speck", 1, vec![]), node("rest", 999_999, vec![])]);
        let drawn = flame("t", &root);
        assert!(!drawn.contains("speck") && drawn.contains("rest"));
        assert!(flame("t", &Node::default()).contains("</svg>"));
        assert!(!SCRIPT.contains('<') && !SCRIPT.contains('&'));
    }
}
