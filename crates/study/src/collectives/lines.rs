//! Lines of a sweep's chart: one for each algorithm, told apart where they coincide.

use super::Sweep;
use cubeyard_draw::svg::colour;

/// Relative difference up to which two values look the same in a chart.
const SAME: f64 = 0.01;
/// Length of a stripe of one colour, in pixels.
const STRIPE: usize = 7;

/// Points of one algorithm, with its looks.
#[derive(Clone, Debug)]
pub(super) struct AlgorithmLine<'a> {
    pub(super) name: &'a str,
    /// Sizes in bytes and bus bandwidths in bytes per second.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) colour: &'static str,
    /// Dashes and gaps; empty for a solid line.
    pub(super) dash: String,
}

impl AlgorithmLine<'_> {
    fn at(&self, size: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0.total_cmp(&size).is_eq()).map(|point| point.1)
    }

    /// Returns whether two lines look the same at two sizes in a row, so that one would hide the other.
    fn hides(&self, other: &Self) -> bool {
        let is_same = |&(size, value): &(f64, f64)| {
            other.at(size).is_some_and(|it| (it - value).abs() <= SAME * value.abs())
        };
        let same: Vec<_> = self.points.iter().map(is_same).collect();
        same.windows(2).any(|pair| pair == [true, true]) || same == [true]
    }
}

/// Returns a line for each algorithm that was measured.
pub(super) fn lines(sweep: &Sweep) -> Vec<AlgorithmLine<'_>> {
    let mut lines: Vec<AlgorithmLine<'_>> = Vec::new();
    for row in &sweep.rows {
        let Ok(figures) = &row.figures else { continue };
        let point = (row.bytes as f64, figures.bus_bandwidth);
        if let Some(line) = lines.iter_mut().find(|line| line.name == row.algorithm) {
            line.points.push(point);
        } else {
            let (name, points, colour) = (row.algorithm.as_str(), vec![point], colour(lines.len()));
            lines.push(AlgorithmLine { name, points, colour, dash: String::new() });
        }
    }
    stripe(&mut lines);
    lines
}

/// Gives lines that coincide dashes that alternate, so that together they are a line in stripes of all their colours.
fn stripe(lines: &mut [AlgorithmLine<'_>]) {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in 0..lines.len() {
        let hides =
            |other: &usize| lines[at].hides(&lines[*other]) || lines[*other].hides(&lines[at]);
        let (mut joined, apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(hides));
        let mut group: Vec<_> = joined.drain(..).flatten().collect();
        group.push(at);
        groups = apart;
        groups.push(group);
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        for (place, &at) in group.iter().enumerate().skip(1) {
            let (before, after) = (STRIPE * place, STRIPE * (group.len() - 1 - place));
            lines[at].dash = format!("0 {before} {STRIPE} {after}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &'static str, values: [f64; 3]) -> AlgorithmLine<'static> {
        let points = [1.0, 2.0, 4.0].into_iter().zip(values).collect();
        AlgorithmLine { name, points, colour: "", dash: String::new() }
    }

    #[test]
    fn lines_that_coincide_alternate_and_others_are_solid() {
        let mut lines = [
            line("a", [1.0, 2.0, 9.0]),
            line("crosses", [8.0, 2.0, 1.0]),
            line("b", [1.0, 2.001, 3.0]),
            line("c", [5.0, 2.001, 3.0]),
        ];
        stripe(&mut lines);
        let dashes: Vec<_> = lines.iter().map(|line| line.dash.as_str()).collect();
        assert_eq!(dashes, ["", "", "0 7 7 7", "0 14 7 0"]);
    }
}
