//! Class `ReplayOutcome`.

use std::sync::Arc;

use cubeyard_cli::Input;
use cubeyard_replay::{HolderOptions, Report, advice, chart};
use pyo3::prelude::*;

use crate::plain;

/// Reports on traces under policies.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct ReplayOutcome {
    pub(crate) inputs: Vec<Arc<Input>>,
    pub(crate) reports: Vec<Report>,
    pub(crate) holders: HolderOptions,
}

/// Point of a timeline: trace, policy, event, time, live bytes and reserved bytes.
type Point = (String, &'static str, usize, u64, u64, u64);

#[pymethods]
impl ReplayOutcome {
    /// Returns the records of `cubeyard replay`, one for each trace and policy.
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let records = self.inputs.iter().zip(&self.reports);
        let records =
            records.flat_map(|(input, report)| report.records(input.file.as_deref(), self.holders));
        plain::report(py, &records.collect::<Vec<_>>())
    }

    /// Returns the page that the command writes with `--plot OUT.html`.
    fn page(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let mut reports = self.reports.clone();
            for (report, input) in reports.iter_mut().zip(&self.inputs) {
                report.map_blocks(&input.trace);
            }
            chart::html(&reports)
        })
    }

    /// Returns the picture that the command writes with `--plot OUT.svg`.
    fn svg(&self, py: Python<'_>) -> String {
        py.detach(|| chart::svg(&self.reports))
    }

    /// Returns the advice that the command prints below its tables.
    fn advice(&self) -> String {
        advice(&self.reports)
    }

    /// Returns the name of each trace and of its recommended policy.
    fn recommended(&self) -> Vec<(String, Option<&'static str>)> {
        let best = |report: &Report| report.recommended().map(|row| row.policy.name);
        self.reports.iter().map(|report| (report.trace.clone(), best(report))).collect()
    }

    /// Returns the points of all timelines, and whether the times of each trace were measured.
    fn timeline(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for report in &self.reports {
            for row in &report.rows {
                points.extend(row.outcome.timeline.points.iter().map(|point| {
                    let (live, reserved) = (point.live.get(), point.reserved.get());
                    let (trace, policy) = (report.trace.clone(), row.policy.name);
                    (trace, policy, point.event, point.time_us, live, reserved)
                }));
            }
        }
        points
    }
}
