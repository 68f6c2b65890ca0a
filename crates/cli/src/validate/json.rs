//! Checks for programs.

use anyhow::Result;
use cubeyard_device::validate::{Relation, Row, Verdict};
use serde::Serialize;

/// What came of one check.
#[derive(Debug, Serialize)]
struct Record<'a> {
    family: &'a str,
    name: &'a str,
    unit: &'a str,
    /// `equal`, `at_most` or `at_least`: how ours is to compare.
    relation: &'a str,
    expected: f64,
    /// Null where the check was left out.
    ours: Option<f64>,
    /// As a part of what was expected; null where there is nothing to compare.
    deviation: Option<f64>,
    /// `exact`, `calibrated`, `predicted` or `indicative`.
    kind: String,
    /// Null where nobody judges: indicative figures, and checks that were left out.
    ok: Option<bool>,
    source: &'a str,
    /// Whether the expected figure is our own arithmetic on our own rules.
    own: bool,
    /// Why it is indicative or was left out, or what else one must know.
    reason: Option<&'a str>,
}

/// One array with an object for each check.
pub(super) fn render(rows: &[Row]) -> Result<String> {
    let records: Vec<_> = rows.iter().map(record).collect();
    Ok(serde_json::to_string_pretty(&records)? + "\n")
}

fn record(row: &Row) -> Record<'_> {
    Record {
        family: row.family,
        name: &row.name,
        unit: row.expected.unit,
        relation: match row.expected.relation {
            Relation::Equal => "equal",
            Relation::AtMost => "at_most",
            Relation::AtLeast => "at_least",
        },
        expected: row.expected.value,
        ours: row.ours,
        deviation: row.deviation(),
        kind: row.kind.to_string(),
        ok: match row.verdict {
            Verdict::Passed => Some(true),
            Verdict::Failed => Some(false),
            Verdict::Shown | Verdict::LeftOut => None,
        },
        source: row.source,
        own: row.own,
        reason: row.reason,
    }
}
