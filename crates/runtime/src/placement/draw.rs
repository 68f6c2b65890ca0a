//! A layout as a picture: the matrix, and who holds which rectangle of it.
//!
//! An SVG that is complete in itself, as those of the topology are.

mod labels;
mod legend;
mod paint;

use std::fmt::Write as _;

use cubeyard_memory::Bytes;

use super::{Layout, Shard, Split};
use labels::Rect;
use paint::Hues;

/// Where the matrix begins, and how far from the left it does so at least.
const LEAST_LEFT: f64 = 92.0;
const TOP: f64 = 118.0;
/// How wide the matrix is, and between which limits its height is.
const WIDTH: f64 = 720.0;
const LEAST_HEIGHT: f64 = 300.0;
const GREATEST_HEIGHT: f64 = 640.0;
/// The empty edge on all sides.
const EDGE: f64 = 28.0;
/// How wide the legend is.
const LEGEND: f64 = 230.0;

/// The parts of a layout on the paper.
struct Picture<'a> {
    layout: &'a Layout,
    hues: Hues,
    left: f64,
    height: f64,
    svg: String,
}

impl Layout {
    /// The layout as an SVG picture: a rectangle for each part, coloured and labelled by who holds it.
    pub fn draw(&self) -> String {
        let (rows, columns) = drawn(self);
        let height = WIDTH * rows as f64 / columns as f64;
        let height = height.clamp(LEAST_HEIGHT, GREATEST_HEIGHT).round();
        // Room for the numbers of rows.
        let left = LEAST_LEFT.max(EDGE + 8.0 + 7.0 * rows.to_string().len() as f64);
        let (hues, svg) = (Hues::new(self), String::new());
        let mut picture = Picture { layout: self, hues, left, height, svg };
        picture.heading();
        picture.parts();
        picture.outlines();
        picture.axes();
        let end = picture.labels();
        let below = picture.legend(left + WIDTH + 32.0, TOP);
        picture.finish(below.max(end))
    }
}

/// Rows and columns of the paper: one where there are none.
fn drawn(layout: &Layout) -> (u64, u64) {
    let (rows, columns) = layout.shape.matrix();
    (rows.max(1), columns.max(1))
}

impl Picture<'_> {
    fn heading(&mut self) {
        let layout = self.layout;
        let size = Bytes::new(layout.nbytes);
        let holders = layout.shards.len();
        let title = format!(
            "{} {}, {size}, in {holders} PE{}",
            layout.shape,
            layout.dtype,
            if holders == 1 { "" } else { "s" }
        );
        let [sip, cube, pe] = layout.splits;
        let times = match layout.copies {
            1 => "every byte is held once".to_owned(),
            copies => format!("every byte is held {copies} times"),
        };
        let remark = format!("SIPs {sip}, cubes {cube}, PEs {pe}: {times}");
        self.text(EDGE, 38.0, "font-size=\"20\" font-weight=\"600\"", &title);
        self.text(EDGE, 62.0, "font-size=\"13\" fill=\"#57606a\"", &remark);
    }

    /// Where a shard's rectangle is.
    fn area(&self, shard: &Shard) -> Rect {
        let (rows, columns) = drawn(self.layout);
        let x = |column: u64| self.left + WIDTH * column as f64 / columns as f64;
        let y = |row: u64| TOP + self.height * row as f64 / rows as f64;
        Rect {
            left: x(shard.columns.start),
            top: y(shard.rows.start),
            right: x(shard.columns.end),
            bottom: y(shard.rows.end),
        }
    }

    fn parts(&mut self) {
        let layout = self.layout;
        for copies in layout.parts() {
            let (area, fill) = (self.area(&copies[0]), self.hues.fill(&copies[0]));
            // White lines between parts, as far as they leave something of them.
            let line = (area.shorter() / 8.0).min(0.8);
            self.rect(
                area,
                &format!("fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"{line:.2}\""),
            );
        }
    }

    /// Around what a cube holds, and stronger around what a SIP holds, where they split.
    fn outlines(&mut self) {
        let [sip, cube, _] = self.layout.splits;
        if cube != Split::Replicate {
            for area in self.unions(2) {
                self.rect(area, "fill=\"none\" stroke=\"#57606a\" stroke-width=\"1\"");
            }
        }
        if sip != Split::Replicate {
            for area in self.unions(1) {
                self.rect(area, "fill=\"none\" stroke=\"#1f2328\" stroke-width=\"3\"");
            }
        }
        self.rect(self.whole(), "fill=\"none\" stroke=\"#1f2328\" stroke-width=\"1.5\"");
    }

    fn whole(&self) -> Rect {
        Rect { left: self.left, top: TOP, right: self.left + WIDTH, bottom: TOP + self.height }
    }

    /// Numbers of rows to the left and of columns above, where parts begin and there is room.
    fn axes(&mut self) {
        let (rows, columns) = self.layout.shape.matrix();
        let style = "font-size=\"11\" text-anchor";
        for row in self.marks(rows, |shard| shard.rows.start, 15.0 / self.height) {
            let y = TOP + self.height * row as f64 / drawn(self.layout).0 as f64;
            self.text(self.left - 8.0, y + 4.0, &format!("{style}=\"end\""), &row.to_string());
        }
        let wide = 16.0 + 7.0 * columns.to_string().len() as f64;
        for column in self.marks(columns, |shard| shard.columns.start, wide / WIDTH) {
            let x = self.left + WIDTH * column as f64 / drawn(self.layout).1 as f64;
            self.text(x, TOP - 8.0, &format!("{style}=\"middle\""), &column.to_string());
        }
        let remark = "columns above, rows to the left";
        self.text(self.left, TOP - 28.0, "font-size=\"11\" fill=\"#57606a\"", remark);
    }

    /// Where parts begin, or else what cubes hold, or else SIPs, so that all are `least` of the whole
    /// apart; and where the whole begins and ends.
    fn marks(&self, whole: u64, start: fn(&Shard) -> u64, least: f64) -> Vec<u64> {
        let marks = |levels| {
            let mut marks: Vec<u64> =
                self.joined(levels).iter().map(|(shard, _)| start(shard)).collect();
            marks.extend([0, whole]);
            marks.sort_unstable();
            marks.dedup();
            let apart = |pair: &[u64]| (pair[1] - pair[0]) as f64 >= least * whole as f64;
            marks.windows(2).all(apart).then_some(marks)
        };
        [3, 2, 1].into_iter().find_map(marks).unwrap_or_else(|| vec![0, whole])
    }

    fn rect(&mut self, area: Rect, style: &str) {
        let Rect { left, top, right, bottom } = area;
        let (width, height) = (right - left, bottom - top);
        let line = format!(
            "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" {style}/>"
        );
        self.line(&line);
    }

    fn text(&mut self, x: f64, y: f64, style: &str, text: &str) {
        self.line(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>"));
    }

    fn line(&mut self, line: &str) {
        writeln!(self.svg, "{line}").expect("text can always be appended to");
    }

    fn finish(self, below: f64) -> String {
        let width = self.left + WIDTH + 32.0 + LEGEND + EDGE;
        let height = (below + EDGE).ceil();
        let (shape, dtype) = (self.layout.shape, self.layout.dtype);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"system-ui, -apple-system, 'Segoe UI', \
             'DejaVu Sans', Helvetica, Arial, sans-serif\" fill=\"#1f2328\" role=\"img\">\n\
             <title>{shape} {dtype}: who holds what</title>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            self.svg
        )
    }
}
