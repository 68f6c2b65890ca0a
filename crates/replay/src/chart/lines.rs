//! The chart of one report: live and reserved bytes over time.

use super::colours;
use crate::report::significant;
use crate::{Point, Report, Row};
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};
use cubeyard_units::Bytes;
use cubeyard_units::text::count;

/// Colour of the live bytes and of the recorded bytes.
const GREY: &str = "#8a97a6";

/// Describes the chart: the live bytes, the bytes that each policy reserved, and the recorded bytes.
pub(super) fn chart(report: &Report) -> Chart {
    let longest = report.rows.iter().max_by_key(|row| row.outcome.events);
    let positions = positions(report, longest);
    let timed = longest.is_some_and(|row| row.outcome.timeline.is_timed);
    let across = if timed {
        Axis::new("time", Quantity::Microseconds, Spacing::Linear)
    } else {
        Axis::new("events", Quantity::Count, Spacing::Linear)
    };
    let up = Axis::new("", Quantity::Bytes, Spacing::Linear);
    let live = longest.map(|row| live(row, &positions));
    let policies = report.rows.iter().enumerate();
    let policies = policies.map(|(place, row)| policy(report, place, row, &positions));
    let recorded = report.recorded_reserved().map(|bytes| Line {
        figures: Some(bytes.to_string()),
        dash: "2 4".to_owned(),
        width: 1.5,
        ..grey(report.recorded_name(), vec![bytes.get() as f64; positions.len()])
    });
    let lines = live.into_iter().chain(policies).chain(recorded).collect();
    let (remark, heading) = (remark(longest), "peak · waste");
    Chart { remark, heading, lines, ..Chart::new(report.trace.clone(), [across, up], positions) }
}

fn remark(longest: Option<&Row>) -> String {
    let events = longest.map_or(0, |row| row.outcome.timeline.total_events);
    let noun = if events == 1 { "event" } else { "events" };
    format!(
        "what each policy reserved over {} {noun}, and what was live; waste is peak reserved ÷ peak live",
        count(events as u64)
    )
}

/// Returns the positions of all points, and the end of the trace.
fn positions(report: &Report, longest: Option<&Row>) -> Vec<f64> {
    let points = report.rows.iter().flat_map(|row| {
        let timeline = &row.outcome.timeline;
        timeline.points.iter().map(|point| timeline.instant(point))
    });
    let end = longest.map(|row| {
        let timeline = &row.outcome.timeline;
        let events = timeline.total_events as u64;
        (if timeline.is_timed { timeline.end_us } else { events }) as f64
    });
    let mut positions: Vec<f64> = points.chain(end).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    positions
}

fn live(row: &Row, positions: &[f64]) -> Line {
    let peak = row.outcome.peak_live.to_string();
    let values = values(row, |point| point.live, positions);
    Line {
        figures: Some(peak),
        width: 1.0,
        shape: Shape::Filled,
        ..grey("live".to_owned(), values)
    }
}

fn grey(name: String, values: Vec<f64>) -> Line {
    Line { colour: GREY.to_owned(), shape: Shape::Stepped, ..Line::new(0, name, values) }
}

fn policy(report: &Report, place: usize, row: &Row, positions: &[f64]) -> Line {
    let best = report.recommended().is_some_and(|best| best.policy.name == row.policy.name);
    let is_bold = best && report.rows.len() > 1;
    let waste = row.outcome.waste().map(|waste| format!(" · {}", significant(waste)));
    let is_broken = row.outcome.failed.is_some();
    let figures = format!("{}{}", row.outcome.peak_reserved, waste.unwrap_or_default());
    let figures = if is_broken { "failed".to_owned() } else { figures };
    let values = values(row, |point| point.reserved, positions);
    Line {
        figures: Some(figures),
        width: if is_bold { 3.4 } else { 1.8 },
        shape: Shape::Stepped,
        is_bold,
        is_broken,
        colour: colours::of(row.policy.name, &report.rows).to_owned(),
        ..Line::new(place, row.policy.name.to_owned(), values)
    }
}

/// Returns one figure of a row at each position; a failed row ends with its last point.
fn values(row: &Row, figure: fn(&Point) -> Bytes, positions: &[f64]) -> Vec<f64> {
    let timeline = &row.outcome.timeline;
    let points: Vec<_> =
        timeline.points.iter().map(|point| (timeline.instant(point), figure(point))).collect();
    let last = points.last().map_or(f64::MIN, |point| point.0);
    held(&points, positions, if row.outcome.failed.is_some() { last } else { f64::INFINITY })
}

/// Returns the value of the last point up to each position; NaN before the first point and after `end`.
fn held(points: &[(f64, Bytes)], positions: &[f64], end: f64) -> Vec<f64> {
    let mut points = points.iter().peekable();
    let mut value = f64::NAN;
    let mut at = |position: &f64| {
        while let Some(point) = points.next_if(|point| point.0 <= *position) {
            value = point.1.get() as f64;
        }
        if *position > end { f64::NAN } else { value }
    };
    positions.iter().map(&mut at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_hold_up_to_the_next_point_and_to_the_end() {
        let points = [(1.0, Bytes::new(10)), (3.0, Bytes::new(20)), (3.0, Bytes::new(30))];
        let values = held(&points, &[0.0, 1.0, 2.0, 3.0, 4.0], 3.0);
        assert!(values[0].is_nan() && values[4].is_nan());
        assert_eq!(values[1..4], [10.0, 10.0, 30.0]);
        assert_eq!(held(&points, &[4.0], f64::INFINITY), [30.0]);
    }
}
