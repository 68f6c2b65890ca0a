//! Runs: the records of the served files, with one row of a table for each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};

use cubeyard_bench::compare::{Measured, machine_differences};
use cubeyard_bench::record::{FORMAT, Record, plain_json};
use cubeyard_device::topology::Topology;
use cubeyard_units::text::{count, percent};
use serde::Deserialize as _;
use serde_json::Value;

use super::files::{FileKind, Served};
use crate::grid::{bytes, time};

/// Maximum size of a file of records that is shown, in bytes; a larger one can be downloaded.
const LONGEST: u64 = 32 << 20;
/// Maximum number of characters of an input's value in a row.
const LONGEST_VALUE: usize = 40;
/// Maximum number of machine keys in a row.
const MOST_KEYS: usize = 3;

/// Record of a run with the name under which it can be compared.
#[derive(Debug)]
pub(super) struct Run {
    /// Name of the file, followed by `:N` for record N of a file of several.
    pub(super) name: String,
    pub(super) record: Record,
}

/// Returns the runs of a file's values; `None` if one of them is not a record of this version.
pub(super) fn of_values(file: &str, values: &[Value]) -> Option<Vec<Run>> {
    let run = |(at, value): (usize, &Value)| {
        let name = if values.len() == 1 { file.to_owned() } else { format!("{file}:{}", at + 1) };
        let is_known = value.get("format").and_then(Value::as_u64) == Some(u64::from(FORMAT));
        let record = is_known.then(|| Record::deserialize(value))?.ok()?;
        Some(Run { name, record })
    };
    values.iter().enumerate().map(run).collect()
}

/// Returns the run with a name; `None` if there is none.
pub(super) fn named(served: &Served, name: &str) -> Option<Run> {
    let is_record = |file: &str| served.kind(file) == Some(FileKind::Record);
    let (file, number) = match name.rsplit_once(':') {
        _ if is_record(name) => (name, 1),
        Some((file, number)) if is_record(file) => (file, number.parse().ok()?),
        _ => return None,
    };
    let mut runs = of_values(file, &read(served.open(file).ok()?).ok()?)?;
    let at = usize::checked_sub(number, 1).filter(|at| *at < runs.len())?;
    Some(runs.swap_remove(at))
}

/// Reads a JSON value, the elements of an array, or a value on each line.
pub(super) fn read(file: File) -> Result<Vec<Value>, String> {
    let text = text(file).map_err(|error| error.to_string())?;
    let values = match serde_json::from_str(&text) {
        Ok(Value::Array(values)) => values,
        Ok(value) => vec![value],
        Err(_) => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let values = lines.map(|(at, line)| {
                serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
            });
            values.collect::<Result<_, _>>()?
        }
    };
    Ok(values)
}

fn text(file: File) -> io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        let problem = format!("a file of more than {} is not shown", bytes(LONGEST));
        return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}

/// Returns the command of a record with its bench, such as `run gemm`.
pub(super) fn title(record: &Record) -> String {
    let command = record.command.as_deref().unwrap_or("run");
    if command == record.bench { command.to_owned() } else { format!("{command} {}", record.bench) }
}

/// Returns the inputs of each run that differ between runs of the same title, such as `m=512`.
pub(super) fn differing(runs: &[Run]) -> Vec<String> {
    let mut all: BTreeMap<String, BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
    for Run { record, .. } in runs {
        let inputs = all.entry(title(record)).or_default();
        for (name, value) in &record.inputs {
            inputs.entry(name).or_default().insert(value.to_string());
        }
    }
    let inputs = |run: &Run| {
        let values = &all[&title(&run.record)];
        let differ = |name: &str| values.get(name).is_some_and(|values| values.len() > 1);
        let inputs = run.record.inputs.iter().filter(|(name, _)| differ(name));
        let inputs = inputs.map(|(name, value)| {
            let value = cubeyard_draw::xml::shorten(&plain(value), LONGEST_VALUE);
            format!("{}={value}", name.trim_start_matches('-'))
        });
        inputs.collect::<Vec<_>>().join(" ")
    };
    runs.iter().map(inputs).collect()
}

/// Formats a value of JSON without quotes.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns the time of a record, or its shortest and longest; `–` for a run that failed.
pub(super) fn times(all: &[Measured]) -> String {
    let shortest = all.iter().map(|it| it.time_ns).min_by(f64::total_cmp);
    match (shortest, longest(all)) {
        (Some(shortest), Some(longest)) if all.len() > 1 => {
            format!("{} – {}", time(shortest), time(longest.time_ns))
        }
        (_, Some(one)) => time(one.time_ns),
        _ => "–".to_owned(),
    }
}

/// Returns the longest time of a record.
pub(super) fn longest(all: &[Measured]) -> Option<&Measured> {
    all.iter().max_by(|one, other| one.time_ns.total_cmp(&other.time_ns))
}

/// Returns the limiting factor of a time, or its largest bound; empty if neither is known.
pub(super) fn limit(measured: &Measured) -> String {
    match (&measured.limited_by, measured.bound()) {
        (Some(limit), _) => limit.clone(),
        (None, Some((name, bound))) if measured.time_ns > 0.0 => {
            format!("{name} (bound: {} of the time)", percent(bound / measured.time_ns))
        }
        _ => String::new(),
    }
}

/// Machines of records, described by their differences from the default machine.
#[derive(Debug)]
pub(super) struct Machines {
    default: Value,
    hash: String,
}

impl Machines {
    pub(super) fn new() -> Self {
        let default = Topology::embedded();
        Self { hash: default.content_hash().to_string(), default: plain_json(default.values()) }
    }

    /// Returns the keys that differ from the default machine, each with the default and the value; `None` if the
    /// record of another machine does not contain it.
    pub(super) fn changes(&self, record: &Record) -> Option<Vec<[String; 3]>> {
        if record.topology == self.hash {
            return Some(Vec::new());
        }
        let machines = [self.default.clone(), record.machine.clone()?];
        let row = |it: cubeyard_bench::compare::Pair<Value>| {
            let [default, own] = it.values.map(|it| plain(&it.unwrap_or_default()));
            [it.name, default, own]
        };
        Some(machine_differences(&machines).into_iter().map(row).collect())
    }

    /// Returns a short description, such as `hbm.channels=4`.
    pub(super) fn short(&self, record: &Record) -> String {
        let Some(changes) = self.changes(record) else {
            return format!("other ({})", record.topology.chars().take(8).collect::<String>());
        };
        let keys = changes.iter().take(MOST_KEYS).map(|[key, _, own]| format!("{key}={own}"));
        let mut keys: Vec<_> = keys.collect();
        match changes.len() {
            0 => "default".to_owned(),
            number => {
                let more = number.saturating_sub(MOST_KEYS);
                keys.extend((more > 0).then(|| format!("and {} more", count(more as u64))));
                keys.join(", ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(inputs: &Value) -> Value {
        json!({
            "format": FORMAT, "version": "0", "bench": "gemm", "source": null, "topology": "t",
            "inputs": inputs, "figures": null, "error": "full",
        })
    }

    #[test]
    fn runs_are_named_by_file_and_number_and_told_apart_by_their_inputs() {
        let values =
            [record(&json!({"m": 1, "k": 2})), record(&json!({"m": 3, "k": 2, "--data": true}))];
        let runs = of_values("a.jsonl", &values).unwrap();
        assert_eq!(runs[1].name, "a.jsonl:2");
        assert_eq!(differing(&runs), ["m=1", "m=3"]);
        assert_eq!(of_values("a.json", &values[..1]).unwrap()[0].name, "a.json");
        assert_eq!(title(&runs[0].record), "run gemm");
        assert_eq!(times(&Measured::all(&runs[0].record)), "–");
    }

    #[test]
    fn values_that_are_no_records_are_no_runs() {
        let mut other = record(&json!({}));
        other["format"] = json!(FORMAT + 1);
        for wrong in [json!({"bench": "x"}), json!(7), other] {
            assert!(of_values("a", &[record(&json!({})), wrong]).is_none());
        }
    }
}
