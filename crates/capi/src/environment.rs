//! Environment variables; only this file reads them.

#![expect(
    clippy::disallowed_methods,
    reason = "a front reads the environment, in one place, when it is asked to"
)]

use std::env::{self, VarError};
use std::io::{self, IsTerminal as _};

use cubeyard_memory::FlexConfig;
use cubeyard_memory::device::AddressMode;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::argument;
use crate::call::call;
use crate::config::Config;
use crate::status::{Failure, Status};

/// Variables that enable the log.
const DEBUG: [&str; 3] = ["CUBEYARD_ALLOC_DEBUG", "TORCH_SPYRE_ALLOC_DEBUG", "TORCH_SPYRE_DEBUG"];

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_config_from_env(config: *mut *mut Config) -> Status {
    call(|| {
        argument::place(config, "config")?;
        let (flex, mode) = read(FlexConfig::default())?;
        let read = Box::new(Config { flex, mode, events: None });
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(config, "config", Box::into_raw(read)) }
    })
}

/// Reads the configuration of allocators, starting from `flex`, and the mode of the device; enables the log if
/// requested.
pub fn read(mut flex: FlexConfig) -> Result<(FlexConfig, AddressMode), Failure> {
    let text = variable("CUBEYARD_ALLOC_CONF")?;
    flex.update(&text).map_err(|error| cannot_be("CUBEYARD_ALLOC_CONF", &error))?;
    let mode = match variable("FLEX_DEVICE")?.as_str() {
        "" | "PF" => AddressMode::Physical,
        "VF" => AddressMode::Virtual,
        other => return Err(cannot_be("FLEX_DEVICE", &format!("`{other}`: expected PF or VF"))),
    };
    for name in DEBUG {
        if !matches!(variable(name)?.as_str(), "" | "0") {
            log();
        }
    }
    Ok((flex, mode))
}

/// Returns the value of a variable, or an empty string if it is not set.
fn variable(name: &str) -> Result<String, Failure> {
    match env::var(name) {
        Err(VarError::NotPresent) => Ok(String::new()),
        Err(VarError::NotUnicode(_)) => Err(cannot_be(name, &"it is not UTF-8")),
        Ok(value) => Ok(value),
    }
}

fn cannot_be(name: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Status::Config, format!("{name}: {why}"))
}

/// Logs every step to standard error. If the program already has a log, that log receives the steps.
fn log() {
    let lines = fmt()
        .with_max_level(Level::DEBUG)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let steps = Targets::new().with_target("cubeyard::alloc", Level::DEBUG);
    let _ = tracing::subscriber::set_global_default(lines.finish().with(steps));
}
