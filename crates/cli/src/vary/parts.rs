//! Parts of the times of a study, such as the parts of a model's step.

use cubeyard_bench::compare::Measured;

use super::{Point, Study};
use crate::grid::{Grid, time};
use crate::points::Outcome;

/// Minimum share of a time at one point from which a part has a column in text.
const LEAST: f64 = 0.05;
/// Maximum number of columns of parts in text.
const MOST: usize = 5;
/// Maximum number of points that are shown in text.
const MOST_POINTS: usize = 16;

/// Returns the names of all parts of a study, in the order of their first occurrence.
pub(super) fn names(study: &Study) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for measured in study.outcomes.iter().flat_map(times) {
        for (name, _) in measured.path_ns {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// Returns the parts of all points; `None` if they have none, or several times each.
pub(super) fn all(study: &Study) -> Option<Grid> {
    let names = names(study);
    let places: Vec<_> = (0..study.outcomes.len()).collect();
    (!names.is_empty() && is_single(study)).then(|| grid(study, &places, &names, false))
}

/// Returns the largest parts of some points; `None` if these are too many for text.
pub(super) fn largest(study: &Study, places: &[usize]) -> Option<Grid> {
    if !is_single(study) || !(1..=MOST_POINTS).contains(&places.len()) {
        return None;
    }
    let mut shares: Vec<_> =
        names(study).into_iter().map(|name| (share(study, places, &name), name)).collect();
    shares.retain(|(share, _)| *share >= LEAST);
    shares.sort_by(|one, other| other.0.total_cmp(&one.0));
    let chosen: Vec<_> = shares.into_iter().take(MOST).map(|(_, name)| name).collect();
    (!chosen.is_empty()).then(|| grid(study, places, &chosen, true))
}

/// Returns the largest share of the time that a part has at one of some points.
fn share(study: &Study, places: &[usize], name: &str) -> f64 {
    let measured = places.iter().flat_map(|place| times(&study.outcomes[*place]));
    measured.map(|it| part(&it, name) / it.time_ns.max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
}

/// Returns whether each point has one time.
fn is_single(study: &Study) -> bool {
    study.outcomes.iter().all(|outcome| outcome.is_err() || times(outcome).len() == 1)
}

fn times(outcome: &Outcome) -> Vec<Measured> {
    outcome.as_ref().map_or_else(|_| Vec::new(), |it| Measured::all(&it.record))
}

/// Returns the time of a part; 0 if it does not occur.
fn part(measured: &Measured, name: &str) -> f64 {
    measured.path_ns.iter().filter(|(known, _)| known == name).map(|(_, ns)| ns).sum()
}

/// Returns a row for each point with the times of some parts, and of the others together if `has_others` is set.
fn grid(study: &Study, places: &[usize], names: &[String], has_others: bool) -> Grid {
    let others = has_others.then(|| "others".to_owned());
    let keys: Vec<_> = study.grid.keys().map(str::to_owned).collect();
    let left = keys.len();
    let row = |place: &usize| {
        let point: Point<'_> = study.grid.point(*place);
        let values = point.into_iter().map(|(_, value)| value.clone());
        let measured = times(&study.outcomes[*place]).into_iter().next();
        values.chain(cells(measured.as_ref(), names, has_others)).collect()
    };
    let rows = places.iter().map(row).collect();
    let heading = keys.into_iter().chain(names.iter().cloned()).chain(others).collect();
    Grid { heading, rows, left }
}

fn cells(measured: Option<&Measured>, names: &[String], has_others: bool) -> Vec<String> {
    let Some(measured) = measured else {
        return vec!["–".to_owned(); names.len() + usize::from(has_others)];
    };
    let parts: Vec<_> = names.iter().map(|name| part(measured, name)).collect();
    let all: f64 = measured.path_ns.iter().map(|(_, ns)| ns).sum();
    let rest = (all - parts.iter().sum::<f64>()).max(0.0);
    parts.into_iter().chain(has_others.then_some(rest)).map(time).collect()
}
