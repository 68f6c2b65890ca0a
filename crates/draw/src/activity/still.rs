//! Picture of activity, without scripts: intervals too short to be seen are joined.

use std::fmt::Write as _;

use cubeyard_units::Span;
use cubeyard_units::text::{bytes, span};

use super::{Activity, Interval, Lane, Level};
use crate::axis::TimeAxis;
use crate::svg::{AXIS, Area, Canvas, END, GRID, MIDDLE, SOFT};
use crate::xml::{escape, shorten};

const WIDTH: f64 = 1080.0;
const LEFT: f64 = 150.0;
const PLOT: f64 = WIDTH - LEFT - 20.0;
const TOP: f64 = 26.0;
const ROW: f64 = 22.0;
const BLOCK: f64 = 16.0;
/// Height of a quantity, and of the gap above it.
const LEVEL: f64 = 120.0;
const GAP: f64 = 16.0;

/// Draws the lanes, and the quantities below them.
pub(super) fn picture(activity: &Activity, title: &str) -> String {
    let axis = TimeAxis::new(Span::from_ps(activity.end.max(1)));
    let lanes = ROW * activity.lanes.len() as f64;
    let bottom = TOP + lanes + (LEVEL + GAP) * activity.levels.len() as f64;
    let mut canvas = Canvas::default();
    ticks(&mut canvas, &axis, bottom);
    for (place, lane) in activity.lanes.iter().enumerate() {
        draw_lane(&mut canvas, activity, lane, TOP + ROW * place as f64, &axis);
    }
    for (place, level) in activity.levels.iter().enumerate() {
        let top = TOP + lanes + GAP + (LEVEL + GAP) * place as f64;
        draw_level(&mut canvas, level, top, &axis, activity.end);
    }
    let (height, title, body) = (bottom + 8.0, escape(title), canvas.into_elements());
    format!(
        "<svg class=\"picture\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-size=\"11\" role=\"img\" aria-label=\"{title}\">\n{body}</svg>\n"
    )
}

fn ticks(canvas: &mut Canvas, axis: &TimeAxis, bottom: f64) {
    let unit = format!("time in {}", axis.unit.name);
    canvas.text(LEFT - 36.0, TOP - 10.0, &format!("{SOFT} {END}"), &unit);
    for (ps, name) in &axis.ticks {
        let x = LEFT + axis.position(*ps, PLOT);
        canvas.path(&format!("M{x:.1} {}V{bottom}", TOP - 4.0), GRID);
        canvas.text(x, TOP - 10.0, &format!("{SOFT} {MIDDLE}"), name);
    }
}

fn draw_lane(canvas: &mut Canvas, activity: &Activity, lane: &Lane, top: f64, axis: &TimeAxis) {
    canvas.text(LEFT - 10.0, top + 12.0, END, &shorten(&lane.name, 22));
    for block in joined(&lane.intervals, activity.end) {
        let x = axis.position(block.start as f64, PLOT);
        let width = (axis.position(block.end as f64, PLOT) - x).max(1.0);
        let area = Area { x: LEFT + x.min(PLOT - width), y: top, width, height: BLOCK };
        let (from, to) = (span(Span::from_ps(block.start)), span(Span::from_ps(block.end)));
        let title = escape(&format!("{}: {from} to {to}", shorten(&block.name, 80)));
        let Area { x, y, width, height } = area;
        canvas.push(&format!(
            "<rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{}\"><title>{title}</title></rect>",
            activity.colour(block.kind)
        ));
    }
}

/// Joins neighbours of one kind that are less than a pixel apart, so that a picture has at most some thousand blocks.
fn joined(intervals: &[Interval], end: u64) -> Vec<Interval> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some hundred pixels"
    )]
    let pixel = (end as f64 / PLOT) as u64;
    let mut blocks: Vec<(Interval, u64)> = Vec::new();
    for it in intervals {
        match blocks.last_mut() {
            Some((last, count))
                if it.end.saturating_sub(last.start) <= pixel
                    || (last.kind == it.kind
                        && is_short(it, pixel)
                        && it.start <= last.end + pixel) =>
            {
                last.end = last.end.max(it.end);
                *count += 1;
                last.name = format!("{count} operations");
            }
            _ => blocks.push((it.clone(), 1)),
        }
    }
    blocks.into_iter().map(|it| it.0).collect()
}

fn is_short(it: &Interval, pixel: u64) -> bool {
    it.end.saturating_sub(it.start) < 2 * pixel
}

fn draw_level(canvas: &mut Canvas, level: &Level, top: f64, axis: &TimeAxis, end: u64) {
    let most = level.values.iter().map(|it| it.1).max().unwrap_or(0).max(1);
    let y = |value: u64| top + LEVEL * (1.0 - value as f64 / most as f64);
    let bottom = top + LEVEL;
    let mut path = format!("M{LEFT} {bottom:.1}");
    for &(time, value) in &level.values {
        let x = LEFT + axis.position(time as f64, PLOT);
        write!(path, "H{x:.1}V{:.1}", y(value)).expect("writing to a string never fails");
    }
    write!(path, "H{:.1}V{bottom:.1}Z", LEFT + axis.position(end as f64, PLOT))
        .expect("writing to a string never fails");
    canvas.path(&path, "fill=\"#009e73\" fill-opacity=\"0.35\" stroke=\"#009e73\"");
    canvas.path(&format!("M{LEFT} {bottom:.1}H{:.1}", LEFT + PLOT), AXIS);
    canvas.text(LEFT - 10.0, top + 10.0, END, &shorten(&level.name, 22));
    canvas.text(LEFT - 10.0, top + 25.0, &format!("{SOFT} {END}"), &bytes(most));
}
