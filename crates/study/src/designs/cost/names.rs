//! Names in expressions: topology keys and groups of keys.

use cubeyard_device::topology::{GROUPS, KeyGroup, Topology};
use cubeyard_yaml::{PlainValue, nearest};

use super::CostProblem;

/// Text of a value that a machine does not have.
const NONE: &str = "none";

/// Name of a group, or of a topology key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Named {
    Key(String),
    Group(&'static KeyGroup),
}

impl Named {
    pub(super) fn new(name: &str) -> Self {
        KeyGroup::find(name).map_or_else(|| Self::Key(name.to_owned()), Self::Group)
    }

    /// Returns the value on a machine.
    pub(super) fn value(&self, topology: &Topology) -> Result<f64, CostProblem> {
        let key = match self {
            Self::Group(group) => {
                return topology.factor(group).ok_or_else(|| no_number(group.name, NONE));
            }
            Self::Key(key) => key,
        };
        match topology.value(key) {
            Some(PlainValue::Whole(number)) => Ok(*number as f64),
            Some(PlainValue::Number(number)) => Ok(*number),
            Some(PlainValue::Map(_)) => Err(unknown(key, topology)),
            Some(other) => Err(no_number(key, &other.to_string())),
            None if is_of_absent(key, topology) => Err(no_number(key, NONE)),
            None => Err(unknown(key, topology)),
        }
    }
}

fn no_number(key: &str, value: &str) -> CostProblem {
    CostProblem::NotANumber { key: key.to_owned(), value: value.to_owned() }
}

/// Returns whether a key lies within an optional mapping that the machine does not have.
fn is_of_absent(key: &str, topology: &Topology) -> bool {
    let outer = key.match_indices('.').filter_map(|(at, _)| topology.value(&key[..at]));
    outer.into_iter().any(|value| *value == PlainValue::Text(NONE.to_owned()))
}

/// Returns the error for a name that is no key of the machine. If it is a mapping, a key within it is suggested.
fn unknown(name: &str, topology: &Topology) -> CostProblem {
    let keys = topology.keys();
    let is_within = |key: &&String| key.strip_prefix(name).is_some_and(|it| it.starts_with('.'));
    let names = keys.iter().map(String::as_str).chain(GROUPS.iter().map(|group| group.name));
    let within = keys.iter().find(is_within).map(String::as_str);
    let nearest = within.or_else(|| nearest(name, names)).unwrap_or_default().to_owned();
    CostProblem::Unknown { found: name.to_owned(), nearest }
}
