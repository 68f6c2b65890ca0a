//! Suggestions for unknown options, by meaning: `--sequence` leads to `--context`.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cubeyard_yaml::meant;

use crate::Cli;

/// Returns the error with a suggestion, if it is an unknown option with the meaning of a known one: clap compares
/// letters only, and would lead `--sequence` to `--spec`.
pub(crate) fn with_option(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg)
        && let Some(option) = option(found, words)
    {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{option}")));
    }
    error
}

/// Returns the option of the command that an unknown option means.
fn option(found: &str, words: &[OsString]) -> Option<String> {
    let program = Cli::command();
    let name = words.iter().skip(1).find_map(|word| program.find_subcommand(word))?;
    let options = name.get_arguments().filter_map(clap::Arg::get_long);
    meant(found.strip_prefix("--")?, options).map(str::to_owned)
}
