//! `Plot`: the file that a picture goes to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use cubeyard_memory::replay::{Report, chart};

/// Where to draw, and as what.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    path: PathBuf,
    draw: fn(&[Report]) -> String,
}

impl Default for Plot {
    fn default() -> Self {
        Self { path: PathBuf::from("cubeyard-replay.svg"), draw: chart::svg }
    }
}

impl FromStr for Plot {
    type Err = &'static str;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(path);
        let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
        match ending.to_str() {
            Some("svg") => Ok(Self { path, draw: chart::svg }),
            Some("html") => Ok(Self { path, draw: chart::html }),
            _ => Err("expected a file name that ends in .svg or .html"),
        }
    }
}

impl Plot {
    /// Finds out early, before any work, what would surely fail in the end.
    pub(super) fn check(&self) -> Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.is_dir() {
            bail!(
                "{self}: cannot be written, there is no folder {}\n  help: create it",
                folder.display()
            );
        }
        if self.path.is_dir() {
            bail!("{self}: cannot be written, it is a folder\n  help: name a file");
        }
        Ok(())
    }

    /// Draws the reports, over whatever the file held.
    pub(super) fn write(&self, reports: &[Report]) -> Result<()> {
        let written = std::fs::write(&self.path, (self.draw)(reports));
        written.map_err(|error| {
            anyhow!("{self}: cannot be written: {error}\n  help: name another file with --plot")
        })
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}
