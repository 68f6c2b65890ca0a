//! Standard output and standard error, as people and pipes want them.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use clap::ValueEnum;

/// How a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// Prints a result. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(result: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(result.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// Writes a line to standard error. Where nobody listens there, there is nobody to tell.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Whether results may be coloured: on a terminal, unless the user objects (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "a front reads the environment")]
pub(crate) fn colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}

/// Whether somebody watches standard error.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}
