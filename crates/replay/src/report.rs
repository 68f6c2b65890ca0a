//! `Report`: what came of one trace under several policies.

use super::{Kind, Outcome, ReplayPolicy, doubt};
use crate::trace::{RecordedBy, Recording, Trace};
use cubeyard_units::Bytes;

/// What came of one trace under several policies.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the trace.
    pub trace: String,
    /// What the trace knows of the allocator that was recorded.
    pub recording: Option<Recording>,
    /// What the model of PyTorch, with the settings that were recorded, reserves for the trace; nothing for
    /// traces that are no whole recording of PyTorch.
    pub modelled: Option<Bytes>,
    /// A row for each policy, in the order in which they are to be shown.
    pub rows: Vec<Row>,
}

/// What came of one trace under one policy.
#[derive(Clone, Debug)]
pub struct Row {
    /// The policy.
    pub policy: ReplayPolicy,
    /// What it needed.
    pub outcome: Outcome,
    /// Time of an allocation or a free on average, in nanoseconds of the clock that was given; nothing where the policy
    /// failed or had nothing to do.
    pub ns_per_op: Option<f64>,
    /// Whether it would have served the first request that failed when the trace was recorded; nothing where
    /// none did, or where it is not known what there was.
    pub fits: Option<bool>,
}

/// The headings of the columns that [`Row::cells`] fills.
pub const COLUMNS: [&str; 6] = ["policy", "events", "peak live", "peak reserved", "waste", "ns/op"];

impl Report {
    /// A report on `trace` that has no rows yet.
    pub fn new(trace: &Trace) -> Self {
        let (name, recording) = (trace.name.clone(), trace.recording.clone());
        Self { trace: name, recording, modelled: doubt::modelled(trace), rows: Vec::new() }
    }

    /// What the allocator that was recorded had reserved at its peak, where the trace knows it.
    pub fn recorded_reserved(&self) -> Option<Bytes> {
        self.recording.as_ref().and_then(|recording| recording.reserved)
    }

    /// Name of the row with what was recorded.
    pub(super) fn recorded_name(&self) -> String {
        let by = self.recording.as_ref().map_or(RecordedBy::PyTorch, |recording| recording.by);
        format!("{by}, as recorded")
    }

    /// The row to point out: the best, unless there is a [`doubt`](Self::doubt).
    pub fn recommended(&self) -> Option<&Row> {
        self.best().filter(|_| self.doubt().is_none())
    }

    /// The row that reserved the least, the first of several. A plan counts only where there is
    /// nothing else, for it knew the future; a policy that failed never counts.
    pub fn best(&self) -> Option<&Row> {
        let served = self.rows.iter().filter(|row| row.outcome.failed.is_none());
        served.min_by_key(|row| (row.policy.kind == Kind::Planned, row.outcome.peak_reserved))
    }

    /// The row of the policy of this name, unless the policy failed.
    pub(super) fn served(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy.name == name && row.outcome.failed.is_none())
    }

    /// A row in the form of [`Row::cells`] with what was recorded, where the trace knows it.
    pub fn recorded_cells(&self) -> Option<[String; 6]> {
        let recorded = self.recorded_reserved()?;
        let live = self.rows.iter().map(|row| row.outcome.peak_live).max().unwrap_or_default();
        let waste =
            if live.is_zero() { None } else { Some(recorded.get() as f64 / live.get() as f64) };
        let none = String::new;
        let cells = [self.recorded_name(), none(), none(), recorded.to_string()];
        let [name, events, live, reserved] = cells;
        Some([name, events, live, reserved, waste.map_or_else(none, significant), none()])
    }
}

impl Row {
    /// What to show of this row to people, under [`COLUMNS`].
    pub fn cells(&self) -> [String; 6] {
        let outcome = &self.outcome;
        let missing =
            || if outcome.failed.is_some() { "failed".to_owned() } else { "–".to_owned() };
        [
            self.policy.name.to_owned(),
            grouped(outcome.events),
            outcome.peak_live.to_string(),
            outcome.peak_reserved.to_string(),
            outcome.waste().map_or_else(missing, significant),
            self.ns_per_op.map_or_else(|| "–".to_owned(), |time| format!("{time:.1}")),
        ]
    }
}

/// A ratio with as many decimals as are worth reading.
pub(super) fn significant(ratio: f64) -> String {
    let decimals = match ratio {
        ..10.0 => 3,
        ..100.0 => 2,
        ..1000.0 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// A number with a comma between thousands.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ratios_have_few_decimals() {
        for (ratio, text) in
            [(1.0, "1.000"), (12.345, "12.35"), (123.45, "123.5"), (16384.0, "16384")]
        {
            assert_eq!(significant(ratio), text);
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
