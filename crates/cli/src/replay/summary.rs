//! Summary of several traces: a row for each, and their sum.

use cubeyard_memory::Bytes;
use cubeyard_replay::{Report, Row};

use crate::grid::{self, BOLD, paint};

const COLUMNS: [&str; 5] = ["trace", "peak live", "PyTorch needs", "best needs", "best"];
/// Maximum width of a trace's name, in characters.
const LONGEST: usize = 20;

/// Figures of one trace, or the sum over all traces.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    live: Bytes,
    /// Least memory for PyTorch with the recorded settings.
    present: Option<Bytes>,
    /// Memory that the best policy needs.
    best: Option<Bytes>,
}

/// Formats a row for each report and their sum, if there are several.
pub(super) fn render(reports: &[Report], colours: bool) -> String {
    if reports.len() < 2 {
        return String::new();
    }
    let figures: Vec<_> = reports.iter().map(Figures::new).collect();
    let mut rows: Vec<_> =
        reports.iter().zip(&figures).map(|(report, it)| row(report, *it)).collect();
    rows.push(figures.into_iter().reduce(Figures::plus).unwrap_or_default().cells("sum", ""));
    let heading = paint(&format!("all {} traces", reports.len()), BOLD, colours);
    format!("{heading}\n{}\n", grid::table(&COLUMNS, &rows, 1, colours))
}

fn row(report: &Report, figures: Figures) -> Vec<String> {
    let name: String = match report.trace.char_indices().nth(LONGEST) {
        None => report.trace.clone(),
        Some(_) => report.trace.chars().take(LONGEST - 1).chain(['…']).collect(),
    };
    figures.cells(&name, report.recommended().map_or("–", |row| row.policy.name))
}

impl Figures {
    fn new(report: &Report) -> Self {
        let expandable = report.recording.as_ref().is_some_and(|recording| recording.expandable);
        let name = if expandable { "pytorch-expandable" } else { "pytorch" };
        let pytorch = report.rows.iter().find(|row| row.policy.name == name);
        let live = report.rows.iter().map(|row| row.outcome.peak_live).max();
        Self {
            live: live.unwrap_or_default(),
            present: pytorch.and_then(|row| row.least).map(|least| least.memory()),
            best: report.recommended().map(Row::needs),
        }
    }

    /// Adds two sets of figures; a sum with an unknown term is unknown.
    fn plus(self, other: Self) -> Self {
        let sum = |left: Option<Bytes>, right: Option<Bytes>| left?.checked_add(right?);
        Self {
            live: sum(Some(self.live), Some(other.live)).unwrap_or(Bytes::MAX),
            present: sum(self.present, other.present),
            best: sum(self.best, other.best),
        }
    }

    fn cells(self, name: &str, best: &str) -> Vec<String> {
        let text = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), |it| it.to_string());
        let Self { live, present, best: least } = self;
        vec![name.to_owned(), live.to_string(), text(present), text(least), best.to_owned()]
    }
}
