//! Shapes and words of a picture.

use std::fmt::Write as _;

/// A kind of component, which has its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// What only holds others.
    Frame,
    Router,
    Pe,
    Memory,
    Processor,
    Port,
    Pcie,
}

impl Paint {
    /// Fill and outline.
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

    fn ink(self) -> &'static str {
        self.colours().1
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn centred(x: f64, y: f64, width: f64, height: f64) -> Self {
        Self { x: x - width / 2.0, y: y - height / 2.0, width, height }
    }

    pub(super) fn middle(self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    pub(super) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.y + self.height
    }
}

/// Where a word stands beside its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// A picture in the making. Frames are drawn first, then wires, then what is joined by them.
#[derive(Debug)]
pub(super) struct Canvas {
    title: String,
    frames: String,
    wires: String,
    shapes: String,
    words: String,
}

/// The distance from a line of words to the next.
pub(super) const LINE: f64 = 17.0;
/// Where what is drawn begins, below title and remark.
pub(super) const TOP: f64 = 84.0;
/// The empty edge on all sides.
pub(super) const EDGE: f64 = 28.0;

impl Canvas {
    /// A picture with a title and a remark below it.
    pub(super) fn new(title: &str, remark: &str) -> Self {
        let mut canvas = Self {
            title: title.to_owned(),
            frames: String::new(),
            wires: String::new(),
            shapes: String::new(),
            words: String::new(),
        };
        canvas.words(EDGE, 38.0, Anchor::Start, "font-size=\"20\" font-weight=\"600\"", title);
        canvas.words(EDGE, 62.0, Anchor::Start, "font-size=\"13\" fill=\"#57606a\"", remark);
        canvas
    }

    fn words(&mut self, x: f64, y: f64, anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
        };
        writeln!(
            self.words,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" {style}>{text}</text>"
        )
        .expect("text can always be appended to");
    }

    /// A name.
    pub(super) fn name(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.words(x, y, anchor, "font-size=\"14\" font-weight=\"600\"", text);
    }

    /// A name from the bottom up.
    pub(super) fn standing_name(&mut self, x: f64, y: f64, text: &str) {
        let style =
            format!("font-size=\"14\" font-weight=\"600\" transform=\"rotate(-90 {x} {y})\"");
        self.words(x, y, Anchor::Middle, &style, text);
    }

    /// A remark.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.words(x, y, anchor, "font-size=\"12\"", text);
    }

    /// A wire along these points.
    pub(super) fn wire(&mut self, paint: Paint, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        writeln!(
            self.wires,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
            points.join(" "),
            paint.ink()
        )
        .expect("text can always be appended to");
    }

    /// An empty box.
    pub(super) fn area(&mut self, paint: Paint, area: Area) {
        let (fill, stroke) = paint.colours();
        let layer = if paint == Paint::Frame { &mut self.frames } else { &mut self.shapes };
        let style = format!("rx=\"5\" fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"");
        rect(layer, area, &style);
    }

    /// Where something is missing.
    pub(super) fn gap(&mut self, area: Area, text: &str) {
        rect(&mut self.shapes, area, "rx=\"5\" fill=\"#eaeef2\"");
        let (x, y) = area.middle();
        self.words(x, y + 4.5, Anchor::Middle, "font-size=\"12\" fill=\"#57606a\"", text);
    }

    /// A box with a name and lines below it, all centred.
    pub(super) fn labelled(&mut self, paint: Paint, area: Area, name: &str, lines: &[String]) {
        self.area(paint, area);
        let (x, y) = area.middle();
        let first = y + 5.0 - LINE * lines.len() as f64 / 2.0;
        self.name(x, first, Anchor::Middle, name);
        for (place, line) in lines.iter().enumerate() {
            self.text(x, first + LINE * (place + 1) as f64, Anchor::Middle, line);
        }
    }

    /// A small box with a word in it.
    pub(super) fn chip(&mut self, paint: Paint, area: Area, text: &str) {
        self.area(paint, area);
        let (x, y) = area.middle();
        self.text(x, y + 4.5, Anchor::Middle, text);
    }

    /// A table of what the kinds of boxes and wires are; gives where it ends.
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

    /// The whole picture, so wide and so high.
    pub(super) fn finish(self, width: f64, height: f64) -> String {
        let Self { title, frames, wires, shapes, words } = self;
        let (width, height) = (width.ceil(), height.ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', \
             'DejaVu Sans', Helvetica, Arial, sans-serif\" fill=\"#1f2328\" role=\"img\">\n\
             <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             {frames}{wires}{shapes}{words}</svg>\n"
        )
    }
}

fn rect(layer: &mut String, area: Area, style: &str) {
    let Area { x, y, width, height } = area;
    writeln!(layer, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {style}/>")
        .expect("text can always be appended to");
}
