//! Options of commands that draw their results as a page.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, anyhow};
use clap::Args;
use cubeyard_draw::xml::escape;

use crate::output::{self, Named};
use crate::terminal::OutputOptions;

/// Programs that open a file with the user's browser.
const OPENERS: [&str; 2] =
    if cfg!(target_os = "macos") { ["open", "xdg-open"] } else { ["xdg-open", "open"] };

/// A page of the results.
#[derive(Args, Debug, Default)]
pub(crate) struct PageOptions {
    /// Draw the results as one HTML page; with --vary, and by ccl and replay, to an .svg file as a picture
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Open the page of --report in the browser
    #[arg(long, requires = "report")]
    pub(crate) open: bool,
}

impl PageOptions {
    /// Checks before any work that the page can be written.
    pub(crate) fn check(&self, inputs: &[Named<'_>]) -> Result<()> {
        output::check(inputs, &output::named([("--report", &self.report)]))
    }

    /// Draws, writes and opens the page, as requested by the options.
    pub(crate) fn write(
        &self,
        options: OutputOptions,
        draw: impl FnOnce() -> String,
    ) -> Result<()> {
        let Some(path) = &self.report else { return Ok(()) };
        output::write(path, "--report", &draw())?;
        options.remark(&format!("wrote {}", path.display()));
        self.show()
    }

    /// Opens the written page in the browser, if requested.
    pub(crate) fn show(&self) -> Result<()> {
        self.report.as_deref().filter(|_| self.open).map_or(Ok(()), open)
    }
}

/// Returns an HTML list; empty text if there are no items.
pub(crate) fn list<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let items: Vec<_> = items.into_iter().map(|it| format!("<li>{}</li>\n", escape(it))).collect();
    if items.is_empty() { String::new() } else { format!("<ul>\n{}</ul>\n", items.concat()) }
}

/// Opens a file or an address with the first opener that succeeds.
pub(crate) fn open(target: impl AsRef<Path>) -> Result<()> {
    let target = target.as_ref();
    let opens = |program: &&&str| {
        let mut command = Command::new(program);
        let quiet =
            command.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    match OPENERS.iter().find(opens) {
        Some(_) => Ok(()),
        None => Err(anyhow!(
            "--open: neither {} nor {} opens {}\n  help: open it in a browser yourself, or install xdg-utils",
            OPENERS[0],
            OPENERS[1],
            target.display()
        )),
    }
}
