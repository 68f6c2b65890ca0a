//! Output file of a picture.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Result;
use cubeyard_replay::{Report, chart};

use crate::output;

/// Output file of a picture, with the function that draws it.
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
    /// Returns whether the file is an HTML page, which shows the blocks over time.
    pub(super) fn is_page(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html"))
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Draws the reports to the file, replacing its contents.
    pub(super) fn write(&self, reports: &[Report]) -> Result<()> {
        output::write(&self.path, "--plot", &(self.draw)(reports))
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}
