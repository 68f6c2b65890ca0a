//! Results of checks as JSON.

use anyhow::Result;
use cubeyard_device::topology::Topology;
use cubeyard_validate::{Relation, Row, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::record::Stamped;

/// Result of one check.
#[derive(Debug, Serialize)]
struct Record<'a> {
    family: &'a str,
    name: &'a str,
    unit: &'a str,
    /// Relation that ours must have to the expected figure: `equal`, `at_most` or `at_least`.
    relation: &'a str,
    expected: f64,
    /// Null if the check was left out.
    ours: Option<f64>,
    /// Relative deviation; null if there is nothing to compare.
    deviation: Option<f64>,
    /// Tolerance: `exact`, `calibrated`, `predicted` or `indicative`.
    kind: String,
    /// Null if the check is not judged: indicative, or left out.
    ok: Option<bool>,
    source: &'a str,
    /// Whether the expected figure is our own arithmetic on our own rules.
    own: bool,
    /// Reason for which the check is indicative or was left out, or another remark.
    reason: Option<&'a str>,
}

/// Renders an array with an object for each check, each with the version and the hash of the machine.
pub(super) fn render(rows: &[Row], topology: &Topology) -> Result<String> {
    let records: Vec<_> = rows.iter().map(|row| Stamped::new(record(row), topology)).collect();
    Ok(serde_json::to_string_pretty(&records)? + "\n")
}

/// Returns the array of `cubeyard validate --format json`, with an object for each check.
pub fn value(rows: &[Row]) -> Value {
    rows.iter().map(|row| serde_json::to_value(record(row)).expect("plain data")).collect()
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
