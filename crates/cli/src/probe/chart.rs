//! Bandwidth of cases over size, as a chart.

use cubeyard_device::probe::{CaseReport, SWEEP_BYTES};
use cubeyard_draw::chart::{Axis, Chart, Line, Quantity, Spacing};

/// Bandwidth at each size, in bytes per second, with the names of all cases that share these values.
struct CaseLine {
    name: String,
    values: Vec<f64>,
}

/// Draws the chart; empty text if there are no cases.
pub(super) fn figure(reports: &[CaseReport]) -> String {
    let lines = lines(reports);
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(at, line)| Line::new(at, line.name, line.values)).collect();
    let size = Axis::new("size", Quantity::Bytes, Spacing::Binary);
    let bandwidth = Axis::new("bandwidth", Quantity::BytesPerSecond, Spacing::Linear);
    let positions = SWEEP_BYTES.iter().map(|bytes| *bytes as f64).collect();
    let chart = Chart::new("Bandwidth over size".to_owned(), [size, bandwidth], positions);
    Chart { lines, ..chart }.figure()
}

/// Returns a line for each case; cases with the same values share one.
fn lines(reports: &[CaseReport]) -> Vec<CaseLine> {
    let mut lines: Vec<CaseLine> = Vec::new();
    for report in reports {
        let values: Vec<_> = report.sweep.iter().map(|it| it.gb_per_second() * 1e9).collect();
        let name = &report.case.name;
        match lines.iter_mut().find(|line| line.values == values) {
            Some(line) => line.name.extend([", ", name]),
            None => lines.push(CaseLine { name: name.clone(), values }),
        }
    }
    lines
}
