//! Overrides of topology values, and the values of a machine as plain data.

use std::fmt;

use cubeyard_yaml::{Document, InputError, InputProblem, LONGEST, PlainValue};
use thiserror::Error;

use super::spec::{SipTopology, SipsSpec};
use super::{Topology, groups, read, suggest};

/// Name of the machine's values in errors.
const MACHINE: &str = "the machine";
/// Number of characters of a value that errors show.
const SHOWN: usize = 60;

/// Hash of the values of a machine. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyHash(u128);

impl fmt::Display for TopologyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Error in an override of topology values. Correct the key or the value.
///
/// Prints as `key=value: problem`, with the key of the problem in between if it is another key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{given}: {}{problem}", prefix(given, key))]
pub struct OverrideError {
    /// Override with the problem, as `key=value`; all overrides if the problem is a value of the machine that conflicts
    /// with them.
    pub given: String,
    /// Key of the problem, as in `hbm.burst_bytes`.
    pub key: Box<str>,
    /// Problem of this key.
    pub problem: InputProblem,
}

fn prefix(given: &str, key: &str) -> String {
    let is_given = given.split_once('=').is_some_and(|(given, _)| given == key);
    if is_given || key.is_empty() { String::new() } else { format!("{key}: ") }
}

impl Topology {
    /// Returns the values of the machine in the structure of a topology file, with the defaults filled in. Reading a
    /// file with these values gives the same machine.
    pub fn values(&self) -> &PlainValue {
        &self.values
    }

    /// Returns a hash of [`values`](Self::values). Files with the same values in another order or notation have the
    /// same hash: 128-bit FNV-1a over the values in one line of YAML, with sorted keys and without keys that are
    /// `none`.
    ///
    /// ```
    /// use cubeyard_device::topology::Topology;
    ///
    /// let one = Topology::read("one.yaml", "hbm: {bytes_per_cube: 24 GiB}\nflit_bytes: 512\n")?;
    /// let other = Topology::read("b", "flit_bytes: 512\nhbm: {bytes_per_cube: 25769803776}\n")?;
    /// assert_eq!(one.content_hash(), other.content_hash());
    /// assert_ne!(one.content_hash(), Topology::embedded().content_hash());
    /// # Ok::<(), cubeyard_yaml::InputError>(())
    /// ```
    pub fn content_hash(&self) -> TopologyHash {
        const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = (1 << 88) + 0x13b;
        let text = self.values.normal().to_string();
        let next = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        TopologyHash(text.bytes().fold(START, next))
    }

    /// Returns this machine with other values. A key has dots, as in `hbm.link.bandwidth_gbs`, or names a mapping of
    /// the file; the value of a mapping may contain some of its keys. Values are checked like the values of a file.
    /// Later overrides replace earlier ones.
    ///
    /// A key may also name a [group](super::KeyGroup) of keys, or several as in `hbm.bandwidth+pe.gemm`, with a factor
    /// such as `2x` as its value. It scales the values that its keys have after the earlier overrides.
    ///
    /// The machine's grid of SIPs is kept only if their number and topology do not change.
    ///
    /// ```
    /// use cubeyard_yaml::PlainValue;
    /// use cubeyard_device::topology::Topology;
    ///
    /// let with = |key: &str, value| Topology::embedded().with_overrides(&[(key.to_owned(), value)]);
    /// let fast = with("hbm.channel_bandwidth_gbs", PlainValue::Whole(64)).unwrap();
    /// assert_eq!(fast.spec().hbm.channel_bandwidth.gb_per_second(), 64.0);
    ///
    /// let error = with("hbm.chanel_bandwidth", PlainValue::Whole(64)).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "hbm.chanel_bandwidth=64: hbm: expected a known key, found `chanel_bandwidth`; the nearest is \
    ///      `channel_bandwidth_gbs`"
    /// );
    /// ```
    pub fn with_overrides(
        &self,
        overrides: &[(String, PlainValue)],
    ) -> Result<Self, OverrideError> {
        let texts = self.given(overrides)?;
        let base = self.base(&texts).to_string();
        let spec_and_values = || {
            let mut document = Document::parse(MACHINE, &base, usize::MAX)?;
            let default = Document::parse(super::DEFAULT_NAME, super::DEFAULT, usize::MAX)?;
            for given in &texts {
                let given = Document::parse(&given.shown, &given.text, LONGEST)?;
                given.root().keeps_mappings(&default.root())?;
                document.overlay(given);
            }
            Ok((read::spec(&document.root())?, document.root().value()))
        };
        let (spec, values) =
            spec_and_values().map_err(|error| refused(error, &texts, &self.values))?;
        Ok(Self::new(spec, values))
    }

    /// Returns the overrides in the structure of a file, with groups replaced by their keys.
    fn given(&self, overrides: &[(String, PlainValue)]) -> Result<Vec<Given>, OverrideError> {
        let (mut all, mut values): (Vec<Given>, _) = (Vec::new(), self.values.clone());
        for (key, value) in overrides {
            let (shown, first) = (shown(key, value), all.len());
            if groups::is_group(key) {
                let scaled = groups::expanded(&values, key, value).map_err(|problem| {
                    OverrideError { given: shown.clone(), key: key.as_str().into(), problem }
                })?;
                all.extend(scaled.iter().map(|(key, value)| Given::new(&shown, key, value)));
            } else {
                all.push(Given::new(&shown, key, value));
            }
            // Later groups scale the values up to here.
            all[first..].iter().for_each(|given| values.overlay(&given.value));
        }
        Ok(all)
    }

    /// Returns the machine's values. The grid of the SIPs is left out if overrides change the SIPs without giving a
    /// grid.
    fn base(&self, texts: &[Given]) -> PlainValue {
        let mut base = self.values.clone();
        let is_given = |name| {
            texts
                .iter()
                .any(|given| given.value.get("sips").is_some_and(|sips| sips.get(name).is_some()))
        };
        if (is_given("count") || is_given("topology")) && !is_given("w") && !is_given("h") {
            let SipsSpec { count, topology, .. } = self.spec.sips;
            base.set("sips", sips(SipsSpec { count, topology, w: 0, h: 0 }));
        }
        base
    }
}

/// Returns the SIPs as in a file: with a grid, unless they form a ring or the grid is empty.
pub(super) fn sips(spec: SipsSpec) -> PlainValue {
    let topology = PlainValue::Text(spec.topology.name().to_owned());
    let mut entries = vec![("count", PlainValue::Whole(spec.count.into())), ("topology", topology)];
    if spec.topology != SipTopology::Ring1d && spec.w > 0 {
        entries.push(("w", PlainValue::Whole(spec.w.into())));
        entries.push(("h", PlainValue::Whole(spec.h.into())));
    }
    PlainValue::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Override in the structure of a file.
struct Given {
    /// Override as `key=value`, for errors.
    shown: String,
    value: PlainValue,
    text: String,
}

impl Given {
    fn new(shown: &str, key: &str, value: &PlainValue) -> Self {
        let nested = |value, key: &str| PlainValue::Map(vec![(key.to_owned(), value)]);
        let value = key.rsplit('.').fold(value.clone(), nested);
        let text = value.to_string();
        Self { shown: shown.to_owned(), value, text }
    }
}

/// Returns an override as `key=value`, shortened for errors.
fn shown(key: &str, value: &PlainValue) -> String {
    let text = match value {
        PlainValue::Text(text) if groups::is_group(key) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    };
    let shown: String = text.chars().take(SHOWN).collect();
    shown.replace(char::is_control, "\u{fffd}")
}

/// Returns the error with the override that caused it.
fn refused(error: InputError, texts: &[Given], values: &PlainValue) -> OverrideError {
    let InputError { file, key, problem, .. } = error;
    let all = || {
        let mut all: Vec<_> = texts.iter().map(|given| given.shown.as_str()).collect();
        all.dedup();
        all.join(", ")
    };
    let given = if &*file == MACHINE { all() } else { file.into_string() };
    let problem = suggest::improved(problem, &given, &key, values);
    OverrideError { given, key, problem }
}
