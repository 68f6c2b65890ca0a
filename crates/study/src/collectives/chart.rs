//! Chart of a sweep: bus bandwidth over size, both on logarithmic scales, with a line for each algorithm and the bound.

use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Shape, Spacing};

use super::Sweep;

/// Relative difference up to which two values are indistinguishable in a chart.
const SAME: f64 = 0.01;
/// Length of a stripe of one colour, in pixels.
const STRIPE: usize = 7;
/// Prefix of the dash pattern of a striped line.
pub(super) const STRIPED: &str = "0 ";

/// Returns the chart of a sweep, with a line for each algorithm and one for the bound.
pub fn chart(sweep: &Sweep) -> Chart {
    let measured = || sweep.rows.iter().filter_map(|row| Some((row, row.figures.as_ref().ok()?)));
    let mut positions: Vec<_> = measured().map(|(row, _)| row.bytes as f64).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let mut lines: Vec<Line> = Vec::new();
    for (row, figures) in measured() {
        let place = lines.iter().position(|line| line.name == row.algorithm).unwrap_or(lines.len());
        if place == lines.len() {
            let values = vec![f64::NAN; positions.len()];
            lines.push(Line::new(place, row.algorithm.clone(), values));
        }
        let at = positions.partition_point(|position| *position < row.bytes as f64);
        lines[place].values[at] = figures.bus_bandwidth;
    }
    stripe(&mut lines);
    lines.extend(sweep.bound.as_ref().map(|it| bound(it.bus, positions.len())));
    let size = Axis::new("size", Quantity::Bytes, Spacing::Binary);
    let rate = Axis::new("bus bandwidth", Quantity::BytesPerSecond, Spacing::Decimal);
    Chart { lines, ..Chart::new(title(sweep), [size, rate], positions) }
}

pub(super) fn title(sweep: &Sweep) -> String {
    let (ranks, kind) = (sweep.map.world().ranks, sweep.ranks.kind());
    format!("{} of {}, {ranks} {kind}: bus bandwidth", sweep.operation, sweep.dtype)
}

fn bound(rate: f64, positions: usize) -> Line {
    let (colour, dash) = ("#8a97a6".to_owned(), "8 6".to_owned());
    let (width, shape) = (1.5, Shape::Stepped);
    Line { colour, dash, width, shape, ..Line::new(0, "bound".to_owned(), vec![rate; positions]) }
}

/// Returns whether one of two lines would hide the other: they are indistinguishable at two consecutive sizes of the
/// first line, or at its only size.
fn hides(line: &Line, other: &Line) -> bool {
    let pairs = line.values.iter().zip(&other.values).filter(|(value, _)| value.is_finite());
    let same: Vec<_> = pairs.map(|(value, it)| (it - value).abs() <= SAME * value.abs()).collect();
    same.windows(2).any(|pair| pair == [true, true]) || same == [true]
}

/// Gives coinciding lines alternating dashes, so that together they form one line striped in all their colours.
fn stripe(lines: &mut [Line]) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in 0..lines.len() {
        let coincides =
            |other: &usize| hides(&lines[at], &lines[*other]) || hides(&lines[*other], &lines[at]);
        let (mut joined, apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(coincides));
        let mut group: Vec<_> = joined.drain(..).flatten().collect();
        group.push(at);
        groups = apart;
        groups.push(group);
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        for (place, &at) in group.iter().enumerate().skip(1) {
            let (before, after) = (STRIPE * place, STRIPE * (group.len() - 1 - place));
            lines[at].dash = format!("{STRIPED}{before} {STRIPE} {after}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_coincide_alternate_and_others_are_solid() {
        let values = [[1.0, 2.0, 9.0], [8.0, 2.0, 1.0], [1.0, 2.001, 3.0], [5.0, 2.001, 3.0]];
        let mut lines = values.map(|values| Line::new(0, String::new(), values.to_vec()));
        stripe(&mut lines);
        let dashes: Vec<_> = lines.iter().map(|line| line.dash.as_str()).collect();
        assert_eq!(dashes, ["", "", "0 7 7 7", "0 14 7 0"]);
    }

    #[test]
    fn lines_of_other_sizes_hide_nothing() {
        let mut lines = [[1.0, f64::NAN, 2.0], [f64::NAN, 1.0, f64::NAN]]
            .map(|values| Line::new(0, String::new(), values.to_vec()));
        stripe(&mut lines);
        assert!(lines.iter().all(|line| line.dash.is_empty()));
    }
}
