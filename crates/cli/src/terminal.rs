//! Standard output and standard error.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;

/// Advice on reading a trace.
pub(crate) const PERFETTO: &str = "open it at ui.perfetto.dev; it shows 1 ps as 1 ns";

/// Format of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable tables
    #[default]
    Table,
    /// JSON for other programs
    Json,
}

/// Prints a result. A closed pipe (`| head`) is not an error.
pub(crate) fn print(result: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(result.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a line to standard error, ignoring failures.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a line to standard error, unless `--quiet` was given.
pub(crate) fn remark(quiet: bool, line: &str) {
    if !quiet {
        note(line);
    }
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
