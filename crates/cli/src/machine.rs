//! Options that name a machine.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use cubeyard_device::topology::Topology;
use cubeyard_yaml::{InputProblem, PlainValue};

use crate::input;
use crate::terminal::OutputOptions;

/// Largest number of bytes read from a file; the library's own limit is lower.
const LIMIT: u64 = 1 << 20;

const HELP: &str = "cubeyard topology --print-default shows every key";

/// A machine: a topology file, and values that replace values of the file.
#[derive(Args, Debug, Default)]
pub(crate) struct MachineOptions {
    /// Topology file of the machine in YAML; the default machine if omitted
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
    /// Topology key with a new value, such as `hbm.channel_bandwidth_gbs=64`, or group of keys with a factor, such as
    /// `hbm.bandwidth=2x`; can be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = replacement)]
    pub(crate) with: Vec<(String, PlainValue)>,
}

impl MachineOptions {
    /// Reads the machine. Warns of bandwidth that cannot be reached, unless `--quiet`.
    pub(crate) fn read(&self, options: OutputOptions) -> Result<Topology> {
        let (name, topology) = self.resolved()?;
        warnings(&name, &topology).iter().for_each(|warning| options.remark(warning));
        Ok(topology)
    }

    /// Reads the machine, and returns only its warnings.
    pub(crate) fn warnings(&self) -> Result<Vec<String>> {
        let (name, topology) = self.resolved()?;
        Ok(warnings(&name, &topology))
    }

    fn resolved(&self) -> Result<(String, Topology)> {
        let (name, topology) = self.file()?;
        if self.with.is_empty() {
            return Ok((name, topology));
        }
        let changed = topology.with_overrides(&self.with);
        Ok((name, changed.map_err(|error| anyhow!("--with {error}\n  help: {HELP}"))?))
    }

    fn file(&self) -> Result<(String, Topology)> {
        let Some(file) = &self.topology else {
            return Ok(("topology".to_owned(), Topology::embedded()));
        };
        let (name, bytes) = input::named_bytes(file, LIMIT)?;
        let topology = Topology::read_bytes(&name, &bytes);
        let topology = topology.map_err(|error| anyhow!("{error}\n  help: {HELP}"))?;
        Ok((name, topology))
    }
}

/// Returns warnings of bandwidth that no traffic can reach; the default machine has none.
fn warnings(name: &str, topology: &Topology) -> Vec<String> {
    let warning = |unreachable| format!("warning: {name}: {unreachable}");
    topology.unreachable().into_iter().map(warning).collect()
}

fn replacement(text: &str) -> Result<(String, PlainValue), String> {
    let expected = "expected KEY=VALUE, such as hbm.channel_bandwidth_gbs=64";
    let (key, value) = text.split_once('=').ok_or(expected)?;
    if key.trim().is_empty() {
        return Err(expected.to_owned());
    }
    let value = PlainValue::read(text, value).map_err(|error| error.to_string())?;
    Ok((key.trim().to_owned(), value))
}

/// Splits `KEY=VALUE` into the key and the value, both as given.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    replacement(text)?;
    let (key, value) = text.split_once('=').unwrap_or_default();
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Returns an error if the machine does not have the key; the value is not checked.
pub(crate) fn check_key(topology: &Topology, key: &str, value: &str) -> Result<()> {
    let given = replacement(&format!("{key}={value}")).map_err(|error| anyhow!("{error}"))?;
    match topology.with_overrides(&[given]) {
        Err(error) if matches!(error.problem, InputProblem::UnknownKey { .. }) => {
            Err(anyhow!("{error}\n  help: {HELP}"))
        }
        _ => Ok(()),
    }
}

/// Returns whether a key belongs to the machine: it has a dot, or is a plain value at the top level of a topology file.
pub(crate) fn is_of_machine(key: &str) -> bool {
    let is_plain = |value: &PlainValue| !matches!(value, PlainValue::Map(_));
    key.contains('.') || Topology::embedded().values().get(key).is_some_and(is_plain)
}
