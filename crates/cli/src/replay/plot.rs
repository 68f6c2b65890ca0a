//! Output file of a picture.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use cubeyard_replay::{Report, chart};

use crate::output;

/// Output file of a picture.
#[derive(Clone, Debug)]
pub(super) struct Plot {
    path: PathBuf,
    is_page: bool,
}

impl Default for Plot {
    fn default() -> Self {
        Self { path: PathBuf::from("cubeyard-replay.svg"), is_page: false }
    }
}

impl FromStr for Plot {
    type Err = &'static str;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        let path = PathBuf::from(path);
        match output::is_page(&path) {
            Ok(is_page) => Ok(Self { path, is_page }),
            Err(_) => Err("expected a file name that ends in .svg or .html"),
        }
    }
}

impl Plot {
    /// Returns whether the file is an HTML page, which shows the blocks over time.
    pub(super) fn is_page(&self) -> bool {
        self.is_page
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Draws the reports to the file, replacing its contents.
    pub(super) fn write(&self, reports: &[Report]) -> Result<()> {
        let draw = if self.is_page { chart::html } else { chart::svg };
        output::write(&self.path, "--plot", &draw(reports))
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}
