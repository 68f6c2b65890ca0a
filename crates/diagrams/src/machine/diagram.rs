//! Boxes, wires and text of a diagram, by kind of component.

use cubeyard_draw::svg::{Area, Canvas, MIDDLE, SOFT};

/// Kind of component, which determines the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Container of other components.
    Frame,
    Router,
    Pe,
    Memory,
    Processor,
    Port,
    Pcie,
}

impl Paint {
    /// Returns the fill and outline colours.
    fn colours(self) -> (&'static str, &'static str) {
        match self {
            Self::Frame => ("#f6f8fa", "#8c959f"),
            Self::Router => ("#ddf4ff", "#0969da"),
            Self::Pe => ("#dafbe1", "#1a7f37"),
            Self::Memory => ("#fff8c5", "#9a6700"),
            Self::Processor => ("#fbefff", "#8250df"),
            Self::Port => ("#fff1e5", "#bc4c00"),
            Self::Pcie => ("#ffebe9", "#cf222e"),
        }
    }
}

/// Horizontal alignment of text relative to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// Diagram in layers: frames, then wires, then the components that the wires join, then text.
#[derive(Debug)]
pub(super) struct Diagram {
    title: String,
    frames: Canvas,
    wires: Canvas,
    shapes: Canvas,
    words: Canvas,
}

/// Distance between lines of text.
pub(super) const LINE: f64 = 17.0;
/// Top of the diagram, below the title and the remark.
pub(super) const TOP: f64 = 84.0;
/// Empty margin on all sides.
pub(super) const EDGE: f64 = 28.0;

const NAME: &str = "font-size=\"14\" font-weight=\"600\"";

impl Diagram {
    /// Creates a diagram with a title and a remark below it.
    pub(super) fn new(title: &str, remark: &str) -> Self {
        let mut words = Canvas::default();
        words.text(EDGE, 38.0, "font-size=\"20\" font-weight=\"600\"", title);
        words.text(EDGE, 62.0, &format!("font-size=\"13\" {SOFT}"), remark);
        let [frames, wires, shapes] = [(); 3].map(|()| Canvas::default());
        Self { title: title.to_owned(), frames, wires, shapes, words }
    }

    fn words(&mut self, x: f64, y: f64, anchor: Anchor, style: &str, text: &str) {
        match anchor {
            Anchor::Start => self.words.text(x, y, style, text),
            Anchor::Middle => self.words.text(x, y, &format!("{MIDDLE} {style}"), text),
        }
    }

    /// Writes a name in bold.
    pub(super) fn name(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.words(x, y, anchor, NAME, text);
    }

    /// Writes a vertical name, from bottom to top.
    pub(super) fn standing_name(&mut self, x: f64, y: f64, text: &str) {
        let style = format!("{NAME} transform=\"rotate(-90 {x} {y})\"");
        self.words(x, y, Anchor::Middle, &style, text);
    }

    /// Writes plain text.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.words(x, y, anchor, "", text);
    }

    /// Draws a wire along these points.
    pub(super) fn wire(&mut self, paint: Paint, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let (points, colour) = (points.join(" "), paint.colours().1);
        self.wires.push(&format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        ));
    }

    /// Draws an empty box.
    pub(super) fn area(&mut self, paint: Paint, area: Area) {
        let (fill, stroke) = paint.colours();
        let layer = if paint == Paint::Frame { &mut self.frames } else { &mut self.shapes };
        let style = format!("rx=\"5\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"");
        layer.rect(area, &style);
    }

    /// Marks the place of an absent component.
    pub(super) fn gap(&mut self, area: Area, text: &str) {
        self.shapes.rect(area, "rx=\"5\" fill=\"#eaeef2\"");
        let (x, y) = area.middle();
        self.words(x, y + 4.5, Anchor::Middle, SOFT, text);
    }

    /// Draws a box with a name and lines below it, all centred.
    pub(super) fn labelled(&mut self, paint: Paint, area: Area, name: &str, lines: &[String]) {
        self.area(paint, area);
        let (x, y) = area.middle();
        let first = y + 5.0 - LINE * lines.len() as f64 / 2.0;
        self.name(x, first, Anchor::Middle, name);
        for (place, line) in lines.iter().enumerate() {
            self.text(x, first + LINE * (place + 1) as f64, Anchor::Middle, line);
        }
    }

    /// Draws a small box with text in it.
    pub(super) fn chip(&mut self, paint: Paint, area: Area, text: &str) {
        self.area(paint, area);
        let (x, y) = area.middle();
        self.text(x, y + 4.5, Anchor::Middle, text);
    }

    /// Draws a table of the kinds of boxes and wires; returns its bottom edge.
    pub(super) fn legend(&mut self, x: f64, y: f64, rows: &[(Paint, &str, String)]) -> f64 {
        let row = |place: usize| y + 24.0 * place as f64;
        for (place, (paint, name, figures)) in rows.iter().enumerate() {
            let y = row(place);
            self.area(*paint, Area { x, y, width: 22.0, height: 14.0 });
            self.text(x + 32.0, y + 11.5, Anchor::Start, name);
            self.text(x + 330.0, y + 11.5, Anchor::Start, figures);
        }
        row(rows.len())
    }

    /// Returns the picture with this size, rounded up.
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        let mut canvas = self.frames;
        for layer in [&self.wires, &self.shapes, &self.words] {
            canvas.append(layer);
        }
        canvas.finish(&self.title, width.ceil(), height.ceil())
    }
}
