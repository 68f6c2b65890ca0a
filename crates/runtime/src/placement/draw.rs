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

/// Where the matrix begins.
const LEFT: f64 = 92.0;
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
    height: f64,
    svg: String,
}

impl Layout {
    /// The layout as an SVG picture: a rectangle for each part, coloured and labelled by who holds it.
    pub fn draw(&self) -> String {
        let (rows, columns) = self.shape.matrix();
        let height = WIDTH * rows as f64 / columns as f64;
        let height = height.clamp(LEAST_HEIGHT, GREATEST_HEIGHT).round();
        let mut picture =
            Picture { layout: self, hues: Hues::new(self), height, svg: String::new() };
        picture.heading();
        picture.parts();
        picture.outlines();
        picture.axes();
        let end = picture.labels();
        let below = picture.legend(LEFT + WIDTH + 32.0, TOP);
        picture.finish(below.max(end))
    }
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
        let (rows, columns) = self.layout.shape.matrix();
        let x = |column: u64| LEFT + WIDTH * column as f64 / columns as f64;
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
        // White lines between parts, as far as they leave something of them.
        let line = if layout.parts().len() > 512 { 0.2 } else { 0.8 };
        for copies in layout.parts() {
            let (area, fill) = (self.area(&copies[0]), self.hues.fill(&copies[0]));
            self.rect(area, &format!("fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"{line}\""));
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
        let Rect { left, top, right, bottom } = self.whole();
        let whole = Rect { left, top, right, bottom };
        self.rect(whole, "fill=\"none\" stroke=\"#1f2328\" stroke-width=\"1.5\"");
    }

    fn whole(&self) -> Rect {
        Rect { left: LEFT, top: TOP, right: LEFT + WIDTH, bottom: TOP + self.height }
    }

    /// Numbers of rows to the left and of columns above, where parts begin and there is room.
    fn axes(&mut self) {
        let layout = self.layout;
        let (rows, columns) = layout.shape.matrix();
        let firsts = || layout.parts().map(|copies| &copies[0]);
        let mut marks: Vec<_> = firsts().map(|shard| shard.rows.start).collect();
        for row in spaced(&mut marks, rows, self.height, 15.0) {
            let y = TOP + self.height * row as f64 / rows as f64;
            self.text(
                LEFT - 8.0,
                y + 4.0,
                "font-size=\"11\" text-anchor=\"end\"",
                &row.to_string(),
            );
        }
        let mut marks: Vec<_> = firsts().map(|shard| shard.columns.start).collect();
        let digits = columns.to_string().len() as f64;
        for column in spaced(&mut marks, columns, WIDTH, 16.0 + 7.0 * digits) {
            let x = LEFT + WIDTH * column as f64 / columns as f64;
            self.text(x, TOP - 8.0, "font-size=\"11\" text-anchor=\"middle\"", &column.to_string());
        }
        self.text(
            LEFT,
            TOP - 26.0,
            "font-size=\"11\" fill=\"#57606a\"",
            "columns, and to the left rows",
        );
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
        let width = LEFT + WIDTH + 32.0 + LEGEND + EDGE;
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

/// Those marks, and the end, that are at least `least` apart on a length that stands for `whole`.
fn spaced(marks: &mut Vec<u64>, whole: u64, length: f64, least: f64) -> Vec<u64> {
    marks.sort_unstable();
    marks.dedup();
    let at = |mark: u64| length * mark as f64 / whole as f64;
    let mut kept: Vec<u64> = Vec::new();
    for &mark in marks.iter() {
        let far = kept.last().is_none_or(|&last| at(mark) - at(last) >= least);
        if far && length - at(mark) >= least {
            kept.push(mark);
        }
    }
    kept.push(whole);
    kept
}
