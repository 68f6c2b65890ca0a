//! Timelines of two records, one above the other on the same axis of time.

use std::collections::BTreeMap;

use cubeyard_draw::activity::{Activity, Interval, Lane};

use super::RowComparison;
use crate::op_table::OpTable;
use crate::record::Record;
use crate::report::SliceKind;

/// Names of the two records.
const SIDES: [&str; 2] = ["A", "B"];
/// Picoseconds in a nanosecond.
const PS: f64 = 1000.0;

/// Draws the units of one PE of each record, A above B: the PE whose last operation ends last, the first of several.
/// `None` unless both records have their operations.
pub fn timelines(a: &Record, b: &Record) -> Option<Activity> {
    let sides = [a.ops.as_ref()?, b.ops.as_ref()?];
    let mut activity = Activity::default();
    for (side, table) in SIDES.into_iter().zip(sides) {
        let pe = last_pe(table)?;
        for (unit, intervals) in units(table, pe) {
            let kind = kind(&mut activity, unit);
            let all = intervals.into_iter().map(|it| Interval { kind, ..it }).collect();
            for (number, intervals) in apart(all).into_iter().enumerate() {
                let more = if number == 0 { String::new() } else { format!(" ({})", number + 1) };
                let name = format!("{side} {unit}{more}");
                activity.end = activity.end.max(intervals.iter().map(|it| it.end).max()?);
                activity.lanes.push(Lane { name, intervals });
            }
        }
    }
    Some(activity)
}

/// Returns the PE whose last operation ends last.
fn last_pe(table: &OpTable) -> Option<&str> {
    let mut last: Option<(u64, u64)> = None;
    for &[unit, _, _, end] in &table.rows {
        if last.is_none_or(|(_, known)| end > known) {
            last = Some((unit, end));
        }
    }
    Some(split(table.units.get(usize::try_from(last?.0).ok()?)?).0)
}

/// Splits the name of a unit into its PE and the kind of unit.
fn split(name: &str) -> (&str, &str) {
    name.split_once(' ').unwrap_or(("", name))
}

/// Returns the operations of each unit of a PE, in the order of the legend of a run.
fn units<'t>(table: &'t OpTable, pe: &str) -> Vec<(&'t str, Vec<Interval>)> {
    let mut units: BTreeMap<(usize, &str), Vec<Interval>> = BTreeMap::new();
    for &[unit, name, start, end] in &table.rows {
        let place = |names: &'t [String], at: u64| names.get(usize::try_from(at).ok()?);
        let (Some(unit), Some(name)) = (place(&table.units, unit), place(&table.names, name))
        else {
            continue;
        };
        let (owner, unit) = split(unit);
        if owner == pe {
            let interval = Interval { start, end, kind: 0, name: name.clone() };
            units.entry((rank(unit), unit)).or_default().push(interval);
        }
    }
    units.into_iter().map(|((_, unit), intervals)| (unit, intervals)).collect()
}

/// Returns the position of a unit among the kinds of work; other units follow.
fn rank(unit: &str) -> usize {
    let known =
        SliceKind::of_unit(unit).and_then(|of| SliceKind::ALL.iter().position(|kind| *kind == of));
    known.unwrap_or(SliceKind::ALL.len())
}

/// Divides intervals over as few lanes as needed, so that those of a lane do not overlap.
fn apart(mut intervals: Vec<Interval>) -> Vec<Vec<Interval>> {
    intervals.sort_by_key(|it| (it.start, it.end));
    let mut lanes: Vec<Vec<Interval>> = Vec::new();
    for it in intervals {
        let is_free =
            |lane: &&mut Vec<Interval>| lane.last().is_none_or(|last| last.end <= it.start);
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.push(it),
            None => lanes.push(vec![it]),
        }
    }
    lanes
}

/// Draws the parts of the critical paths of a time as bars from zero, A above B; empty if the paths are not known.
pub fn path_bars(row: &RowComparison) -> Activity {
    let mut activity = Activity::default();
    for (side, name) in SIDES.into_iter().enumerate() {
        let (mut at, mut intervals) = (0.0, Vec::new());
        for part in &row.path_ns {
            let Some(time) = part.values[side].filter(|time| *time > 0.0) else { continue };
            let kind = kind(&mut activity, &part.name);
            let [start, end] = [at, at + time].map(picoseconds);
            intervals.push(Interval { start, end, kind, name: part.name.clone() });
            at += time;
        }
        activity.end = activity.end.max(picoseconds(at));
        activity.lanes.push(Lane { name: name.to_owned(), intervals });
    }
    if activity.lanes.iter().all(|lane| lane.intervals.is_empty()) {
        return Activity::default();
    }
    activity
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time, not negative")]
fn picoseconds(ns: f64) -> u64 {
    (ns * PS).round() as u64
}

/// Returns the index of a kind, which is added with its colour if it is new. Units have the colours of the page of a
/// run.
fn kind(activity: &mut Activity, name: &str) -> usize {
    let known = activity.kinds.iter().position(|kind| kind == name);
    known.unwrap_or_else(|| {
        activity.colours.push(SliceKind::of_unit(name).map(|kind| kind.colour().to_owned()));
        activity.kinds.push(name.to_owned());
        activity.kinds.len() - 1
    })
}

#[cfg(test)]
mod tests;
