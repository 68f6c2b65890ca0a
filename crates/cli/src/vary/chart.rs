//! Studies as charts: time over cost, and time over the values of the first key with a line for each combination of the
//! others.

use cubeyard_bench::compare::Measured;
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};

use super::Study;
use super::table::is_named;

/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const LOGARITHMIC: f64 = 16.0;

/// Name of a line, and its points: the index of the value, and the time in microseconds.
type Series = (String, Vec<(usize, f64)>);

/// Creates the chart of a picture: time over cost if there are costs, and otherwise over the first key.
pub(super) fn picture(study: &Study) -> Chart {
    costs(study).unwrap_or_else(|| chart(study))
}

/// Creates the chart of time over cost, with the front as a line; `None` without costs.
pub(super) fn costs(study: &Study) -> Option<Chart> {
    let designs = study.designs.all().iter().zip(study.designs.front());
    let mut points: Vec<_> = designs
        .filter_map(|(design, is_on)| {
            let design = design.as_ref()?;
            Some((design.cost?, design.time_ns / 1e3, *is_on))
        })
        .collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let positions: Vec<_> = points.iter().map(|(cost, ..)| *cost).collect();
    let across =
        Axis::new("cost", Quantity::Count, spacing(*positions.first()?, *positions.last()?));
    let up = Axis::new("time", Quantity::Microseconds, Spacing::Linear);
    let line = |number, name: &str, wanted: bool| {
        let time = |(_, time, is_on): &(f64, f64, bool)| {
            if *is_on == wanted { *time } else { f64::NAN }
        };
        let values: Vec<_> = points.iter().map(time).collect();
        let figures = values.iter().filter(|value| value.is_finite()).count().to_string();
        Line { figures: Some(figures), ..Line::new(number, name.to_owned(), values) }
    };
    let front = Line { is_bold: true, ..line(0, "Pareto front", true) };
    let others = Line { shape: Shape::Scattered, ..line(6, "other designs", false) };
    let lines = [front, others].into_iter().filter(|it| it.values.iter().any(|it| it.is_finite()));
    let (title, lines) = (format!("{}: time over cost", study.title), lines.collect());
    let remark = format!("cost = {}", study.cost.as_deref().unwrap_or_default());
    Some(Chart { lines, remark, ..Chart::new(title, [across, up], positions) })
}

/// Returns the spacing of an axis between two values.
fn spacing(first: f64, last: f64) -> Spacing {
    let is_wide = first > 0.0 && last / first >= LOGARITHMIC;
    if is_wide { Spacing::Decimal } else { Spacing::Linear }
}

/// Creates the chart of time over the first key. Positions are numeric if the values of the first key are increasing numbers, and named otherwise.
pub(super) fn chart(study: &Study) -> Chart {
    let (key, values) = &study.grid.axes()[0];
    let numbers = growing(values);
    let names = if numbers.is_some() { Vec::new() } else { values.clone() };
    let positions = numbers.unwrap_or_else(|| (0..values.len()).map(|at| at as f64).collect());
    let spacing = match &*positions {
        [first, .., last] if names.is_empty() => spacing(*first, *last),
        _ => Spacing::Linear,
    };
    let across = Axis::new(key, Quantity::Count, spacing);
    let up = Axis::new("time", Quantity::Microseconds, Spacing::Linear);
    let line = |(at, (name, points)): (usize, Series)| {
        let mut times = vec![f64::NAN; values.len()];
        points.into_iter().for_each(|(place, time)| times[place] = time);
        Line::new(at, name, times)
    };
    let lines = series(study).into_iter().enumerate().map(line).collect();
    Chart { names, lines, ..Chart::new(title(study), [across, up], positions) }
}

pub(super) fn title(study: &Study) -> String {
    let keys: Vec<_> = study.grid.keys().collect();
    format!("{} over {}", study.title, keys.join(", "))
}

fn series(study: &Study) -> Vec<Series> {
    let mut lines: Vec<Series> = Vec::new();
    let rest: usize = study.grid.len() / study.grid.axes()[0].1.len();
    let is_named = is_named(study);
    for (place, (point, outcome)) in study.points().enumerate() {
        let Ok(recorded) = outcome else { continue };
        let others: Vec<_> =
            point[1..].iter().map(|(key, value)| format!("{key}={value}")).collect();
        for measured in Measured::all(&recorded.record) {
            let own = (is_named || others.is_empty()).then(|| measured.name.clone());
            let name: Vec<_> = own.into_iter().chain(others.clone()).collect();
            let (name, at) = (name.join(" "), (place / rest, measured.time_ns / 1e3));
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(at),
                None => lines.push((name, vec![at])),
            }
        }
    }
    lines
}

/// Returns the values as numbers, if there are several and they are strictly increasing.
fn growing(values: &[String]) -> Option<Vec<f64>> {
    let number = |value: &String| value.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Vec<f64> = values.iter().map(number).collect::<Option<_>>()?;
    (numbers.len() > 1 && numbers.is_sorted_by(|one, next| one < next)).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_only_if_they_grow() {
        let of =
            |values: &[&str]| growing(&values.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["2", "3", "6.5"]), Some(vec![2.0, 3.0, 6.5]));
        for values in [&["f16", "f32"][..], &["4", "2"], &["1", "1"], &["1"], &["1", "inf"]] {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
