//! Diagram of a layout: the matrix, and the PEs that hold each rectangle of it.

mod labels;
mod legend;
mod paint;

use cubeyard_draw::svg::{Area, Canvas, END, INK, MIDDLE, SOFT};
use cubeyard_memory::Bytes;
use cubeyard_runtime::placement::{Layout, Shard, Split};

use paint::Hues;

/// Smallest left edge of the matrix.
const LEAST_LEFT: f64 = 92.0;
/// Top edge of the matrix.
const TOP: f64 = 118.0;
/// Width of the matrix, and limits of its height.
const WIDTH: f64 = 720.0;
const LEAST_HEIGHT: f64 = 300.0;
const GREATEST_HEIGHT: f64 = 640.0;
/// Empty margin on all sides.
const EDGE: f64 = 28.0;
/// Width of the legend.
const LEGEND: f64 = 230.0;

/// Diagram of a layout under construction.
struct Picture<'a> {
    layout: &'a Layout,
    hues: Hues,
    left: f64,
    height: f64,
    canvas: Canvas,
}

/// Draws a layout as SVG: a rectangle for each part, coloured and labelled by the PEs that hold it.
pub fn placement(layout: &Layout) -> String {
    let (rows, columns) = drawn(layout);
    let height = WIDTH * rows as f64 / columns as f64;
    let height = height.clamp(LEAST_HEIGHT, GREATEST_HEIGHT).round();
    // Leave room for the row numbers.
    let left = LEAST_LEFT.max(EDGE + 8.0 + 7.0 * rows.to_string().len() as f64);
    let (hues, canvas) = (Hues::new(layout), Canvas::default());
    let mut picture = Picture { layout, hues, left, height, canvas };
    picture.heading();
    picture.parts();
    picture.outlines();
    picture.axes();
    picture.labels();
    let below = picture.legend(left + WIDTH + 32.0, TOP);
    picture.finish(below.max(TOP + height + 10.0))
}

/// Returns the numbers of rows and columns as drawn: at least one each.
fn drawn(layout: &Layout) -> (u64, u64) {
    let (rows, columns) = layout.shape().matrix();
    (rows.max(1), columns.max(1))
}

impl Picture<'_> {
    fn heading(&mut self) {
        let layout = self.layout;
        let size = Bytes::new(layout.nbytes());
        let holders = layout.shards().len();
        let title = format!(
            "{} {}, {size}, in {holders} PE{}",
            layout.shape(),
            layout.dtype(),
            if holders == 1 { "" } else { "s" }
        );
        let [sip, cube, pe] = layout.splits();
        let times = match layout.copies() {
            1 => "every byte is held once".to_owned(),
            copies => format!("every byte is held {copies} times"),
        };
        let remark = format!("SIPs {sip}, cubes {cube}, PEs {pe}: {times}");
        self.canvas.text(EDGE, 38.0, "font-size=\"20\" font-weight=\"600\"", &title);
        self.canvas.text(EDGE, 62.0, &format!("font-size=\"13\" {SOFT}"), &remark);
    }

    /// Returns the rectangle of a shard.
    fn area(&self, shard: &Shard) -> Area {
        let (rows, columns) = drawn(self.layout);
        let x = |column: u64| self.left + WIDTH * column as f64 / columns as f64;
        let y = |row: u64| TOP + self.height * row as f64 / rows as f64;
        let (left, top) = (x(shard.columns.start), y(shard.rows.start));
        let (width, height) = (x(shard.columns.end) - left, y(shard.rows.end) - top);
        Area { x: left, y: top, width, height }
    }

    fn parts(&mut self) {
        let layout = self.layout;
        for copies in layout.parts() {
            let (area, fill) = (self.area(&copies[0]), self.hues.fill(&copies[0]));
            // White lines between parts, thin enough not to hide the parts.
            let line = (area.width.min(area.height) / 8.0).min(0.8);
            self.canvas.rect(
                area,
                &format!("fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"{line:.2}\""),
            );
        }
    }

    /// Outlines the rectangles of cubes, and with stronger lines the rectangles of SIPs, if these levels split the
    /// tensor.
    fn outlines(&mut self) {
        let [sip, cube, _] = self.layout.splits();
        if cube != Split::Replicate {
            for area in self.unions(2) {
                self.canvas.rect(area, "fill=\"none\" stroke=\"#57606a\" stroke-width=\"1\"");
            }
        }
        if sip != Split::Replicate {
            for area in self.unions(1) {
                self.canvas
                    .rect(area, &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"3\""));
            }
        }
        let whole = Area { x: self.left, y: TOP, width: WIDTH, height: self.height };
        self.canvas.rect(whole, &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.5\""));
    }

    /// Writes the first row of each part to the left and the first column above, where there is room.
    fn axes(&mut self) {
        let (rows, columns) = self.layout.shape().matrix();
        for row in self.marks(rows, |shard| shard.rows.start, 15.0 / self.height) {
            let y = TOP + self.height * row as f64 / drawn(self.layout).0 as f64;
            self.canvas.text(
                self.left - 8.0,
                y + 4.0,
                &format!("font-size=\"11\" {END}"),
                &row.to_string(),
            );
        }
        let wide = 16.0 + 7.0 * columns.to_string().len() as f64;
        for column in self.marks(columns, |shard| shard.columns.start, wide / WIDTH) {
            let x = self.left + WIDTH * column as f64 / drawn(self.layout).1 as f64;
            self.canvas.text(
                x,
                TOP - 8.0,
                &format!("font-size=\"11\" {MIDDLE}"),
                &column.to_string(),
            );
        }
        let remark = "columns above, rows to the left";
        self.canvas.text(self.left, TOP - 28.0, &format!("font-size=\"11\" {SOFT}"), remark);
    }

    /// Returns the starts of parts, cubes or SIPs: the finest level at which they are at least the fraction `least` of
    /// the whole apart. The start and the end of the whole are included.
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

    fn finish(self, below: f64) -> String {
        let width = self.left + WIDTH + 32.0 + LEGEND + EDGE;
        let title = format!("{} {}: who holds what", self.layout.shape(), self.layout.dtype());
        self.canvas.finish(&title, width, (below + EDGE).ceil())
    }
}
