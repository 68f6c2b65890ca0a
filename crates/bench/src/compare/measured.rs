//! Measured times in the figures of a record.

use serde_json::{Map, Value, json};

use crate::record::Record;

/// Name of the figure that lists measured times, if there are several.
const ROWS: &str = "rows";

/// Measured time with the parts of its critical path, utilisation and bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Name of the measured quantity, such as `kernel` or `ring 4 KiB`; unique in a record.
    pub name: String,
    /// Simulated time of the run, in nanoseconds.
    pub time_ns: f64,
    /// Parts of the critical path in nanoseconds, which add up to the time; empty if unknown.
    pub path_ns: Vec<(String, f64)>,
    /// Mean utilisation of each kind of unit, from 0 to 1.
    pub utilisation: Vec<(String, f64)>,
    /// Minimum time that each resource allows, in nanoseconds.
    pub bounds_ns: Vec<(String, f64)>,
    /// Limiting factor, worded to follow "limited by".
    pub limited_by: Option<String>,
}

impl Measured {
    /// Returns the times of a record: the kernel time of a run, or the times that its command listed.
    pub fn all(record: &Record) -> Vec<Self> {
        let Some(figures) = &record.figures else { return Vec::new() };
        match figures.get(ROWS).and_then(Value::as_array) {
            Some(rows) => {
                rows.iter().filter_map(|row| Self::read(row.as_object()?, "time_ns")).collect()
            }
            None => Self::read(figures, "kernel_ns").into_iter().collect(),
        }
    }

    /// Returns the figures of a record that lists these times.
    pub fn figures(all: &[Self]) -> Map<String, Value> {
        let rows: Vec<_> = all.iter().map(Self::json).collect();
        Map::from_iter([(ROWS.to_owned(), json!(rows))])
    }

    /// Returns the largest bound.
    pub fn bound(&self) -> Option<&(String, f64)> {
        self.bounds_ns.iter().rev().max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    fn read(figures: &Map<String, Value>, time: &str) -> Option<Self> {
        let numbers = |name: &str| {
            let entries = figures.get(name).and_then(Value::as_object).into_iter().flatten();
            entries.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
        };
        let text = |name: &str| figures.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            name: text("name").unwrap_or_else(|| "kernel".to_owned()),
            time_ns: figures.get(time)?.as_f64()?,
            path_ns: numbers("path_ns"),
            utilisation: numbers("utilisation"),
            bounds_ns: numbers("bounds_ns"),
            limited_by: text("limited_by").filter(|text| !text.is_empty()),
        })
    }

    fn json(&self) -> Value {
        let map = |all: &[(String, f64)]| {
            all.iter().map(|(name, value)| (name.clone(), json!(value))).collect::<Map<_, _>>()
        };
        json!({
            "name": self.name,
            "time_ns": self.time_ns,
            "path_ns": map(&self.path_ns),
            "utilisation": map(&self.utilisation),
            "bounds_ns": map(&self.bounds_ns),
            "limited_by": self.limited_by,
        })
    }
}
