//! Settings of devices, from environment variables; only this file reads them.

#![expect(clippy::disallowed_methods, reason = "a front reads the environment, in one place")]

use std::env::{self, VarError};
use std::fs::{self, File};
use std::io::{self, Read as _};

use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_yaml::PlainValue;
use rustix::system::sysinfo;

/// Default share of the host's memory for all devices together, in percent.
pub const SHARE: u64 = 50;

/// The machine, and the memory of its devices.
#[derive(Debug)]
pub struct Settings {
    /// The machine: its SIPs are the devices.
    pub topology: Topology,
    /// Memory of each device in bytes.
    pub capacity: Bytes,
    /// Reason for the capacity, as text.
    pub bound: String,
    /// Whether operators and copies take simulated time.
    pub timed: bool,
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct SettingsError {
    variable: &'static str,
    problem: String,
}

/// Reads the environment: `CUBEYARD_TOPOLOGY`, `CUBEYARD_SIPS`, `CUBEYARD_DEVICE_MEMORY` and `CUBEYARD_TIME`.
pub fn read() -> Result<Settings, SettingsError> {
    let topology = topology()?;
    let summary = topology.summary();
    let pes = u64::from(summary.cubes_per_sip) * u64::from(summary.pes_per_cube);
    let hbm = Bytes::new(summary.hbm_per_pe.get().saturating_mul(pes));
    let (share, words) = share(u64::from(summary.sips))?;
    let bound = if hbm <= share { format!("the HBM of a SIP, {hbm}") } else { words };
    Ok(Settings { topology, capacity: hbm.min(share), bound, timed: timed()? })
}

/// Reads `CUBEYARD_TIME`. Operators take time by default.
fn timed() -> Result<bool, SettingsError> {
    const NAME: &str = "CUBEYARD_TIME";
    match variable(NAME)?.as_str() {
        "" | "on" => Ok(true),
        "off" => Ok(false),
        other => Err(wrong(NAME, format!("`{other}`: expected on or off"))),
    }
}

/// Reads `CUBEYARD_TOPOLOGY` and `CUBEYARD_SIPS`.
pub fn topology() -> Result<Topology, SettingsError> {
    const FILE: &str = "CUBEYARD_TOPOLOGY";
    const SIPS: &str = "CUBEYARD_SIPS";
    let path = variable(FILE)?;
    let topology = if path.is_empty() {
        Topology::embedded()
    } else {
        let bytes = contents(&path).map_err(|error| wrong(FILE, format!("{path}: {error}")))?;
        Topology::read_bytes(&path, &bytes).map_err(|error| wrong(FILE, error.to_string()))?
    };
    let sips = variable(SIPS)?;
    if sips.is_empty() {
        return Ok(topology);
    }
    let count = sips.parse().map(PlainValue::Whole);
    let count = count.map_err(|_| wrong(SIPS, format!("`{sips}`: expected a number of SIPs")))?;
    let changed = topology.with_overrides(&[("sips.count".to_owned(), count)]);
    changed.map_err(|error| wrong(SIPS, error.to_string()))
}

/// Maximum number of bytes read from a file. The library's own limit, which its error names, is lower.
const LIMIT: u64 = 1 << 20;

/// Reads the beginning of a file, which may be endless.
fn contents(path: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the share of the host's memory for each device, and a description of it.
fn share(devices: u64) -> Result<(Bytes, String), SettingsError> {
    const NAME: &str = "CUBEYARD_DEVICE_MEMORY";
    let text = variable(NAME)?;
    let expected = || {
        wrong(
            NAME,
            format!(
                "`{text}`: expected a size such as 8GiB, or a share of the host's memory such as 50%"
            ),
        )
    };
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse().ok().filter(|percent| (1..=100).contains(percent));
        return Ok(part(percent.ok_or_else(expected)?, devices, NAME));
    }
    if text.is_empty() {
        return Ok(part(SHARE, devices, NAME));
    }
    let size = Bytes::read(&text).filter(|size| !size.is_zero()).ok_or_else(expected)?;
    Ok((size, format!("{NAME}, {size}")))
}

/// Returns a percentage of the host's memory, divided by the number of devices, in whole MiB.
fn part(percent: u64, devices: u64, name: &str) -> (Bytes, String) {
    let host = host();
    let share = (host / 100 * percent / devices.max(1)) & !((1 << 20) - 1);
    let words = format!(
        "{percent} % of the host's memory of {} over {devices} devices ({name})",
        Bytes::new(host)
    );
    (Bytes::new(share), words)
}

/// Returns the memory of the host, or of this process's control group if that is less, in bytes.
fn host() -> u64 {
    let info = sysinfo();
    let installed = info.totalram.saturating_mul(u64::from(info.mem_unit));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    group
        .and_then(|text| text.trim().parse().ok())
        .map_or(installed, |limit: u64| limit.min(installed))
}

/// Returns the value of a variable, or an empty string if it is not set.
fn variable(name: &'static str) -> Result<String, SettingsError> {
    match env::var(name) {
        Err(VarError::NotPresent) => Ok(String::new()),
        Err(VarError::NotUnicode(_)) => Err(wrong(name, "it is not UTF-8".to_owned())),
        Ok(value) => Ok(value.trim().to_owned()),
    }
}

fn wrong(variable: &'static str, problem: String) -> SettingsError {
    SettingsError { variable, problem }
}
