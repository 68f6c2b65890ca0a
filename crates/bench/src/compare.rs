//! Comparison of two records: differences of their inputs and machines, and the cause of a difference in time.
//!
//! A record has one [`Measured`] time for each quantity that its command measured: the kernel of a run, each size and
//! algorithm of a collective, a step of a model, each case of a probe. The parts of the critical path add up to the
//! time, so their differences add up to the difference in time; the largest of them are its cause.
//!
//! ```
//! use cubeyard_bench::compare::Comparison;
//! use cubeyard_bench::record::Record;
//! use cubeyard_bench::{RunConfig, find, run};
//! use cubeyard_device::topology::Topology;
//! use cubeyard_tl::launch::Mode;
//!
//! let record = |elements: &str| {
//!     let (topology, set) = (Topology::embedded(), vec![elements.to_owned()]);
//!     let config = RunConfig { topology, set, data: false, mode: Mode::Recorded, sips: vec![], ops: true };
//!     run(&*find("vector-add").unwrap(), &config).map(|run| Record::of(&run))
//! };
//! let comparison = Comparison::new(&record("elements=4096")?, &record("elements=65536")?);
//! assert_eq!(comparison.inputs[0].name, "elements");
//! let row = &comparison.rows[0];
//! assert!(row.verdict().starts_with("A is faster than B by "), "{}", row.verdict());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cause;
mod measured;
#[cfg(test)]
mod tests;
mod timeline;
mod verdict;

use std::collections::BTreeSet;

use cubeyard_device::topology::Topology;
use cubeyard_yaml::PlainValue;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::record::Record;

pub use measured::Measured;
pub use timeline::{path_bars, timelines};

/// Differences between two records, A and B.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Inputs whose values differ: version, bench, parameters, options.
    pub inputs: Vec<Pair<Value>>,
    /// Keys of the machine, with dots, whose values differ; empty if a record does not contain its machine.
    pub machine: Vec<Pair<Value>>,
    /// Whether the machines differ, by their hashes.
    pub other_machine: bool,
    /// Bandwidth that no traffic can reach, on each of the machines.
    pub unreachable: [Vec<String>; 2],
    /// Times of one or both of the records.
    pub rows: Vec<RowComparison>,
    /// Errors of records of failed runs.
    pub errors: [Option<String>; 2],
}

/// Time from both records with its parts, side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowComparison {
    /// Name of the measured quantity, such as `kernel`.
    pub name: String,
    /// Time in nanoseconds; `None` where a record does not have it.
    pub time_ns: [Option<f64>; 2],
    /// Parts of the critical path, in nanoseconds, longest first.
    pub path_ns: Vec<Pair>,
    /// Mean utilisation of each kind of unit.
    pub utilisation: Vec<Pair>,
    /// Minimum time that each resource allows, in nanoseconds.
    pub bounds_ns: Vec<Pair>,
    /// Limiting factor of each record, if the command names one.
    pub limited_by: [Option<String>; 2],
}

/// Figure from both records, or an input as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair<T = f64> {
    /// Name of the figure or input.
    pub name: String,
    /// Values in A and B; `None` where a record does not have the figure.
    pub values: [Option<T>; 2],
}

/// Part of the critical path that differs, with its share of the difference in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartDifference {
    /// Name of the part.
    pub name: String,
    /// Time of the part in B minus its time in A, in nanoseconds.
    pub change_ns: f64,
    /// Fraction of the difference in time; negative for a part that changed in the opposite direction.
    pub share: f64,
}

impl<T: Serialize> Serialize for Pair<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        json!({ "name": self.name, "a": self.values[0], "b": self.values[1] }).serialize(to)
    }
}

impl Pair {
    /// Returns the value of B minus the value of A; a missing value counts as zero.
    pub fn change(&self) -> f64 {
        let [a, b] = self.values.map(Option::unwrap_or_default);
        b - a
    }
}

impl Comparison {
    /// Compares two records.
    pub fn new(a: &Record, b: &Record) -> Self {
        let machines = [a, b].map(|record| record.machine.clone().unwrap_or_default());
        let both = a.machine.is_some() && b.machine.is_some();
        Self {
            inputs: differences(&inputs(a), &inputs(b)),
            machine: if both { machine_differences(&machines) } else { Vec::new() },
            other_machine: a.topology != b.topology,
            unreachable: machines.map(|machine| unreachable(&machine)),
            rows: rows(a, b),
            errors: [a.error.clone(), b.error.clone()],
        }
    }

    /// Returns the time with the largest difference, relative to the smaller value; the first if several are equal.
    pub fn most_changed(&self) -> Option<&RowComparison> {
        let ratio = |row: &RowComparison| row.ratio().map_or(0.0, |ratio| ratio.max(1.0 / ratio));
        self.rows.iter().rev().max_by(|one, other| ratio(one).total_cmp(&ratio(other)))
    }
}

impl RowComparison {
    /// Returns the ratio of B's time to A's.
    pub fn ratio(&self) -> Option<f64> {
        let [Some(a), Some(b)] = self.time_ns else { return None };
        (a > 0.0 && b > 0.0).then_some(b / a)
    }
}

impl Serialize for RowComparison {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let row = json!({
            "name": self.name,
            "a_ns": self.time_ns[0],
            "b_ns": self.time_ns[1],
            "b_over_a": self.ratio(),
            "verdict": self.verdict(),
            "cause": self.cause(),
            "difference": self.difference(),
            "path_ns": self.path_ns,
            "utilisation": self.utilisation,
            "bounds_ns": self.bounds_ns,
            "limited_by": self.limited_by,
        });
        row.serialize(to)
    }
}

/// Returns all inputs by name. The machine is compared key by key.
fn inputs(record: &Record) -> Map<String, Value> {
    let mut inputs = record.inputs.clone();
    let command = record.command.clone().unwrap_or_else(|| "run".to_owned());
    let others = [
        ("command", json!(command)),
        ("bench", json!(record.bench)),
        ("version", json!(record.version)),
        ("source", json!(record.source)),
    ];
    inputs.extend(others.map(|(name, value)| (name.to_owned(), value)));
    inputs
}

fn differences(a: &Map<String, Value>, b: &Map<String, Value>) -> Vec<Pair<Value>> {
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let difference = |name: &String| {
        let values = [a.get(name).cloned(), b.get(name).cloned()];
        (values[0] != values[1]).then(|| Pair { name: name.clone(), values })
    };
    names.into_iter().filter_map(difference).collect()
}

/// Returns the keys whose values differ between two machines, with dots. A machine is given as in a record.
pub fn machine_differences(machines: &[Value; 2]) -> Vec<Pair<Value>> {
    let [a, b] = machines.each_ref().map(|machine| {
        let mut leaves = Map::new();
        flatten("", machine, &mut leaves);
        leaves
    });
    differences(&a, &b)
}

/// Collects the values of a mapping under dotted keys; `none` stands for an absent value.
fn flatten(prefix: &str, value: &Value, into: &mut Map<String, Value>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                let dot = if prefix.is_empty() { "" } else { "." };
                flatten(&format!("{prefix}{dot}{key}"), value, into);
            }
        }
        Value::String(text) if text == "none" => {}
        value => {
            into.insert(prefix.to_owned(), value.clone());
        }
    }
}

/// Returns the bandwidths of a machine that no traffic can reach; empty for a machine that this version cannot read.
fn unreachable(machine: &Value) -> Vec<String> {
    let text = plain(machine).to_string();
    let topology = Topology::read("the record's machine", &text);
    topology.map_or_else(
        |_| Vec::new(),
        |topology| topology.unreachable().iter().map(ToString::to_string).collect(),
    )
}

fn plain(value: &Value) -> PlainValue {
    match value {
        Value::Null => PlainValue::Map(Vec::new()),
        Value::Bool(flag) => PlainValue::Flag(*flag),
        Value::Number(number) => number.as_u64().map_or_else(
            || PlainValue::of_number(number.as_f64().unwrap_or_default()),
            PlainValue::Whole,
        ),
        Value::String(text) => PlainValue::Text(text.clone()),
        Value::Array(list) => PlainValue::List(list.iter().map(plain).collect()),
        Value::Object(entries) => PlainValue::Map(
            entries.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        ),
    }
}

/// Returns the times of both records: first in the order of A, then the others in the order of B.
fn rows(a: &Record, b: &Record) -> Vec<RowComparison> {
    let [a, b] = [a, b].map(Measured::all);
    let mut names: Vec<&str> = a.iter().map(|it| it.name.as_str()).collect();
    names.extend(
        b.iter().map(|it| it.name.as_str()).filter(|name| a.iter().all(|it| it.name != *name)),
    );
    let of = |all: &[Measured], name: &str| all.iter().find(|it| it.name == name).cloned();
    names.into_iter().map(|name| row(name, &[of(&a, name), of(&b, name)])).collect()
}

fn row(name: &str, sides: &[Option<Measured>; 2]) -> RowComparison {
    let sides = sides.each_ref().map(Option::as_ref);
    let pairs = |of: fn(&Measured) -> &[(String, f64)]| {
        pairs(sides.map(|it| it.map(of).unwrap_or_default()))
    };
    let mut path_ns = pairs(|it| &it.path_ns);
    let longest =
        |pair: &Pair| pair.values.map(Option::unwrap_or_default).into_iter().fold(0.0, f64::max);
    path_ns.sort_by(|one, other| {
        longest(other).total_cmp(&longest(one)).then_with(|| one.name.cmp(&other.name))
    });
    RowComparison {
        name: name.to_owned(),
        time_ns: sides.map(|it| it.map(|it| it.time_ns)),
        path_ns,
        utilisation: pairs(|it| &it.utilisation),
        bounds_ns: pairs(|it| &it.bounds_ns),
        limited_by: sides.map(|it| it.and_then(|it| it.limited_by.clone())),
    }
}

fn pairs([a, b]: [&[(String, f64)]; 2]) -> Vec<Pair> {
    let value = |all: &[(String, f64)], name: &str| {
        all.iter().find(|(known, _)| known == name).map(|it| it.1)
    };
    let mut names: Vec<&String> = a.iter().map(|(name, _)| name).collect();
    names.extend(b.iter().map(|(name, _)| name).filter(|name| value(a, name).is_none()));
    let pair =
        |name: &String| Pair { name: name.clone(), values: [value(a, name), value(b, name)] };
    names.into_iter().map(pair).collect()
}
