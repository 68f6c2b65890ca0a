//! Verdict on a comparison, in one sentence.

use super::{Comparison, RowComparison};

impl Comparison {
    /// Returns one sentence: which record is faster, by how much, and because of what. Of several times it counts the
    /// faster ones and names the time that changed most.
    pub fn verdict(&self) -> String {
        match (&self.rows[..], self.most_changed()) {
            ([], _) | (_, None) => "There is no time to compare.".to_owned(),
            ([row], _) if self.is_same() => {
                format!("There is no difference: A and B have the same inputs{}.", same_time(row))
            }
            (_, _) if self.is_same() => {
                "There is no difference: A and B have the same inputs, and all times are equal."
                    .to_owned()
            }
            ([row], _) => row.verdict(),
            (rows, Some(most)) => several(rows, most),
        }
    }

    /// Returns whether inputs, machines, errors and all times are equal.
    pub fn is_same(&self) -> bool {
        let [a, b] = &self.errors;
        let inputs = self.inputs.is_empty() && self.machine.is_empty() && !self.other_machine;
        inputs && a == b && self.rows.iter().all(RowComparison::is_equal)
    }
}

fn same_time(row: &RowComparison) -> String {
    let verdict = row.verdict();
    verdict
        .strip_prefix("A and B")
        .map_or_else(String::new, |rest| format!(", and{}", rest.trim_end_matches('.')))
}

/// Counts the times at which each record is faster, and names the time that changed most.
fn several(rows: &[RowComparison], most: &RowComparison) -> String {
    let count = |side: usize| {
        rows.iter().filter(|row| !row.is_equal() && row.faster() == Some(side)).count()
    };
    let (a, b, all) = (count(0), count(1), rows.len());
    let counts = match (a, b) {
        (0, 0) => return format!("All {all} times of A and B are equal."),
        (count, 0) => format!("A is faster at {count} of {all} times"),
        (0, count) => format!("B is faster at {count} of {all} times"),
        (a, b) if b > a => format!("B is faster at {b} of {all} times, A at {a}"),
        (a, b) => format!("A is faster at {a} of {all} times, B at {b}"),
    };
    format!("{counts}; most at {}: {}", most.name, most.verdict())
}

impl RowComparison {
    /// Returns whether both records have the time, and it is equal to the picosecond.
    fn is_equal(&self) -> bool {
        matches!(self.time_ns, [Some(a), Some(b)] if (a - b).abs() < super::cause::EQUAL)
    }

    /// Returns the index of the record with the smaller time; `None` if one does not have it.
    fn faster(&self) -> Option<usize> {
        let [Some(a), Some(b)] = self.time_ns else { return None };
        Some(usize::from(b < a))
    }
}
