//! Standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Advice on opening a trace.
pub(crate) const PERFETTO: &str = "open it at ui.perfetto.dev; it shows 1 ps as 1 ns";

/// Options that all commands have for their output.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct OutputOptions {
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Suppress progress and remarks on standard error
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// Tables for human readers
    #[default]
    Table,
    /// JSON for other programs
    Json,
}

impl OutputOptions {
    /// Returns options that suppress all output except the result.
    pub(crate) fn quiet() -> Self {
        Self { quiet: true, ..Self::default() }
    }

    /// Returns whether the result is text, whose rows can be printed as soon as they are known.
    pub(crate) fn is_text(self) -> bool {
        matches!(self.format, Format::Table)
    }

    /// Returns whether text is printed to a terminal.
    pub(crate) fn is_live(self) -> bool {
        self.is_text() && io::stdout().is_terminal()
    }

    /// Prints a result as text, which may be coloured, or as JSON.
    pub(crate) fn print<T: Serialize>(
        self,
        text: impl FnOnce(bool) -> String,
        report: impl FnOnce() -> T,
    ) -> Result<()> {
        print(&match self.format {
            Format::Table => text(colours()),
            Format::Json => serde_json::to_string_pretty(&report())? + "\n",
        })
    }

    /// Writes a line to standard error, unless `--quiet` was given.
    pub(crate) fn remark(self, line: &str) {
        if !self.quiet {
            note(line);
        }
    }
}

/// Prints a result. A closed pipe (`| head`) is not an error.
pub(crate) fn print(result: &str) -> Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(result.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("standard output"),
    }
}

/// Writes a line to standard error, ignoring failures.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Returns whether results may be coloured: on a terminal, unless the user objects (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "a front reads the environment")]
pub(crate) fn colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}

/// Returns whether standard error is a terminal.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}
