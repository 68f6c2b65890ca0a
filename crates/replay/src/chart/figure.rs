//! The chart of one report on a page: live and reserved bytes over time, with zoom and values.

use super::svg;
use crate::{Point, Report, Row};
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};
use cubeyard_draw::svg::colour;
use cubeyard_units::Bytes;

/// Colour of the live bytes, and of what was recorded.
const GREY: &str = "#8a97a6";

/// Draws the chart; only its picture if there are too few points for lines.
pub(super) fn figure(report: &Report) -> String {
    let picture = svg(std::slice::from_ref(report));
    let longest = report.rows.iter().max_by_key(|row| row.outcome.events);
    match longest.filter(|row| row.outcome.timeline.points.len() > 1) {
        Some(longest) => chart(report, longest).figure(&picture),
        None => format!("<div class=\"wide\">{picture}</div>\n"),
    }
}

fn chart(report: &Report, longest: &Row) -> Chart {
    let timeline = &longest.outcome.timeline;
    let (label, quantity) = if timeline.is_timed {
        ("time", Quantity::Microseconds)
    } else {
        ("events", Quantity::Count)
    };
    let at = |point: &Point, bytes| (timeline.instant(point), bytes);
    let live: Vec<_> = timeline.points.iter().map(|point| at(point, point.live)).collect();
    let mut series = vec![("live".to_owned(), GREY, 1.0, Shape::Filled, live)];
    for (place, row) in report.rows.iter().enumerate() {
        let points = row.outcome.timeline.points.iter();
        let points = points.map(|point| at(point, point.reserved)).collect();
        series.push((row.policy.name.to_owned(), colour(place), 1.8, Shape::Stepped, points));
    }
    let mut positions: Vec<f64> = series.iter().flat_map(|it| &it.4).map(|it| it.0).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let drawn = |(name, colour, width, shape, points): (String, &str, f64, Shape, Vec<_>)| {
        let values = held(&points, &positions);
        Line { name, colour: colour.to_owned(), dash: String::new(), width, shape, values }
    };
    let mut lines: Vec<_> = series.into_iter().map(drawn).collect();
    lines.extend(report.recorded_reserved().map(|bytes| Line {
        name: report.recorded_name(),
        colour: GREY.to_owned(),
        dash: "2 4".to_owned(),
        width: 1.5,
        shape: Shape::Stepped,
        values: vec![bytes.get() as f64; positions.len()],
    }));
    Chart {
        title: format!("Live and reserved memory of {}", report.trace),
        across: Axis { label, quantity, spacing: Spacing::Linear },
        up: Axis { label: "", quantity: Quantity::Bytes, spacing: Spacing::Linear },
        positions,
        lines,
    }
}

/// Returns the value that holds at each position: that of the last point up to it, up to the last point of all.
fn held(points: &[(f64, Bytes)], positions: &[f64]) -> Vec<f64> {
    let last = points.last().map_or(f64::MIN, |point| point.0);
    let mut points = points.iter().peekable();
    let mut value = f64::NAN;
    let mut at = |position: &f64| {
        while let Some(point) = points.next_if(|point| point.0 <= *position) {
            value = point.1.get() as f64;
        }
        if *position > last { f64::NAN } else { value }
    };
    positions.iter().map(&mut at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_up_to_the_next_point_and_end_with_the_last() {
        let points = [(1.0, Bytes::new(10)), (3.0, Bytes::new(20)), (3.0, Bytes::new(30))];
        let values = held(&points, &[0.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(values[0].is_nan() && values[4].is_nan());
        assert_eq!(values[1..4], [10.0, 10.0, 30.0]);
    }
}
