//! Timeline: the work of the units of a few PEs, with the critical path above them.

use std::fmt::Write as _;

use cubeyard_sim::Span;

use super::markup::{WIDTH, class, legend, picture};
use super::merge::{Block, fit, sorted};
use super::{Lane, RunReport, Slice, SliceKind, Step, Timeline};
use cubeyard_draw::axis::TimeAxis;
use cubeyard_draw::remark;
use cubeyard_draw::svg::{Canvas, END, GRID, MIDDLE, SOFT};
use cubeyard_draw::xml::{escape, shorten};
use cubeyard_units::text::{count, percent, span};

const LEFT: f64 = 150.0;
const PLOT: f64 = WIDTH - LEFT - 20.0;
const TOP: f64 = 26.0;
/// Distance between lanes, and the height of their blocks.
const ROW: f64 = 18.0;
const BLOCK: f64 = 13.0;
/// Distance from the name of a PE to its first lane.
const HEADING: f64 = 24.0;
/// Minimum width of a block: a pixel.
const NARROWEST: f64 = 1.0;
/// Minimum height of a block, so that it is visible.
const LOWEST: f64 = 1.0;
/// Maximum number of blocks, so that a page stays below 2 MB.
const MOST_BLOCKS: usize = 10_000;
/// Maximum number of lanes drawn.
const MOST_LANES: usize = 256;

/// Lane as drawn: the unit below the name of its PE.
struct Row<'a> {
    group: &'a str,
    unit: &'a str,
    slices: Vec<&'a Slice>,
}

impl<'a> Row<'a> {
    fn new(lane: &'a Lane) -> Self {
        let (group, unit) = lane.name.split_once(' ').unwrap_or(("", &lane.name));
        Self { group, unit, slices: sorted(&lane.slices) }
    }
}

/// Draws the timeline with its legend; empty if there are no slices.
pub(super) fn timeline(report: &RunReport) -> String {
    let critical: Vec<_> = report.critical.iter().map(slice).collect();
    let path = Row { group: "", unit: "critical path", slices: sorted(&critical) };
    let path = (!critical.is_empty()).then_some(path);
    let lanes = report.lanes.iter().take(MOST_LANES).map(Row::new);
    let rows: Vec<_> = path.into_iter().chain(lanes).collect();
    let slices = || rows.iter().flat_map(|row| &row.slices);
    let Some(end) = slices().map(|slice| slice.end.max(slice.start)).max() else {
        return String::new();
    };
    let used = SliceKind::ALL.into_iter().filter(|kind| slices().any(|slice| slice.kind == *kind));
    let used: Vec<_> = used.map(|kind| (kind, String::new())).collect();
    let picture = drawn(&rows, end.max(report.kernel), report.kernel);
    let remark = remark(
        "Blocks are as high as the unit was busy; slices too short to be seen are one block.",
    );
    format!("{}<div class=\"wide\">{picture}</div>\n{remark}{}", legend(&used), left_out(report))
}

/// Draws the timeline of every operation, with the picture of a few PEs for print; empty if there are no slices.
pub(super) fn whole_timeline(report: &RunReport, operations: &Timeline) -> String {
    let still = timeline(report);
    if still.is_empty() || operations.operations() == 0 {
        return still;
    }
    let Some((legend, picture)) = still.split_once("<div class=\"wide\">") else { return still };
    let picture = format!("<div class=\"wide\">{picture}");
    let remark = remark(&format!(
        "{} operations. The height of a block is the busy share of the unit; blocks too short to be seen are joined.",
        count(operations.operations() as u64)
    ));
    format!("{legend}{}{remark}", operations.figure(&report.critical, &picture))
}

/// Converts a step to a slice in the lane of the critical path.
fn slice(step: &Step) -> Slice {
    let Step { start, end, kind, .. } = *step;
    Slice { start, end, busy: step.span(), kind, name: step.what.clone() }
}

fn left_out(report: &RunReport) -> String {
    match report.lanes.len().saturating_sub(MOST_LANES) {
        0 => String::new(),
        more => remark(&format!("{} more lanes are not drawn.", count(more as u64))),
    }
}

fn drawn(rows: &[Row<'_>], end: Span, kernel: Span) -> String {
    let axis = TimeAxis::new(end);
    let slices: Vec<_> = rows.iter().map(|row| row.slices.as_slice()).collect();
    let blocks = fit(&slices, end.ps(), MOST_BLOCKS, pixel(end));
    let (names, places, bottom) = names(rows);
    let height = bottom - TOP;
    let lanes: String =
        places.iter().zip(&blocks).map(|(y, blocks)| lane(*y, blocks, &axis)).collect();
    let plot = format!(
        "<svg class=\"plot\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{PLOT}\" height=\"{height}\" \
         viewBox=\"0 0 {PLOT} {height}\" preserveAspectRatio=\"none\" data-end=\"{}\">\n\
         <rect class=\"catch\" width=\"{PLOT}\" height=\"{height}\"/>\n{lanes}{}</svg>\n",
        end.ps().max(1),
        kernel_end(&axis, kernel, end, height)
    );
    let body = ticks(&axis, bottom) + &names + &plot;
    picture("timeline", "What each unit did when", bottom + 8.0, &body)
}

/// Draws lines at round times, with labels above.
fn ticks(axis: &TimeAxis, bottom: f64) -> String {
    let (mut canvas, baseline) = (Canvas::default(), TOP - 10.0);
    let unit = format!("time in {}", axis.unit.name);
    canvas.text(LEFT - 36.0, baseline, &format!("{SOFT} {END}"), &unit);
    canvas.push("<g class=\"ticks\">");
    for (ps, name) in &axis.ticks {
        let x = LEFT + axis.position(*ps, PLOT);
        canvas.path(&format!("M{x:.1} {}V{bottom}", TOP - 4.0), GRID);
        canvas.text(x, baseline, &format!("{SOFT} {MIDDLE}"), name);
    }
    canvas.push("</g>");
    canvas.into_elements()
}

/// Draws the names of lanes below the names of their PEs; also returns the top of each lane, and the bottom.
fn names(rows: &[Row<'_>]) -> (String, Vec<f64>, f64) {
    let (mut canvas, mut places, mut y, mut place) = (Canvas::default(), Vec::new(), TOP, "");
    for &Row { group, unit, .. } in rows {
        if group != place || y <= TOP {
            place = group;
            y += if group.is_empty() { 6.0 } else { HEADING };
            canvas.text(8.0, y - 7.0, "class=\"strong\"", &shorten(group, 40));
        }
        canvas.text(LEFT - 10.0, y + 11.0, END, &shorten(unit, 18));
        places.push(y - TOP);
        y += ROW;
    }
    (canvas.into_elements(), places, y)
}

/// Returns the duration of one pixel, in picoseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundred pixels")]
fn pixel(end: Span) -> u64 {
    end.ps() / (PLOT * NARROWEST) as u64
}

fn lane(y: f64, blocks: &[Block<'_>], axis: &TimeAxis) -> String {
    let mut text = format!("<g transform=\"translate(0 {y})\">\n");
    for block in blocks {
        let x = axis.position(block.start as f64, PLOT);
        let width = (axis.position(block.end as f64, PLOT) - x).max(NARROWEST);
        let (top, height) = height(block, axis);
        let edge = if width > 3.0 && block.count == 1 { " edge" } else { "" };
        writeln!(
            text,
            "<rect class=\"{}{edge}\" x=\"{:.2}\" width=\"{width:.2}\"{top} height=\"{height}\">\
             <title>{}</title></rect>",
            class(block.kind),
            x.min(PLOT - width),
            escape(&title(block))
        )
        .expect("text can always be appended to");
    }
    text + "</g>\n"
}

/// Returns the offset and height of a block. Its height relative to the lane is the unit's busy fraction, so that the
/// drawn area is proportional to the lane's busy time.
fn height(block: &Block<'_>, axis: &TimeAxis) -> (String, String) {
    let per_pixel = 1.0 / axis.position(1.0, PLOT);
    let height = (block.density(NARROWEST * per_pixel) * BLOCK).max(LOWEST);
    if height > BLOCK - 0.05 {
        return (String::new(), BLOCK.to_string());
    }
    (format!(" y=\"{:.1}\"", BLOCK - height), format!("{height:.1}"))
}

fn title(block: &Block<'_>) -> String {
    let slice = block.first;
    if block.count == 1 {
        let (start, end) = (slice.start, slice.end.max(slice.start));
        let (from, to, takes) = (span(start), span(end), span(end.saturating_sub(start)));
        let busy = match block.density(0.0) {
            all if all > 0.995 => String::new(),
            share => format!(", busy {}", percent(share)),
        };
        return format!("{}: {from} to {to}, {takes}{busy}", shorten(&slice.name, 60));
    }
    let (from, to) = (span(Span::from_ps(block.start)), span(Span::from_ps(block.end)));
    let (number, kind) = (count(block.count as u64), block.kind.name());
    format!("{number} slices, mostly {kind}: {from} to {to}, busy {}", percent(block.density(0.0)))
}

/// Draws a line at the end of the kernel, if any slice ends after it.
fn kernel_end(axis: &TimeAxis, kernel: Span, end: Span, height: f64) -> String {
    if kernel >= end || kernel == Span::ZERO {
        return String::new();
    }
    let x = axis.position(kernel.ps() as f64, PLOT);
    format!(
        "<path class=\"mark\" d=\"M{x:.2} 0V{height}\"><title>end of the kernel</title></path>\n"
    )
}

#[cfg(test)]
mod tests;
