//! Files that are served: those of a folder with a known ending, by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

/// Depth of folders that are searched.
const DEPTH: usize = 4;
/// Largest number of files that are listed.
const MOST: usize = 2000;

/// Kind of a file, by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Page,
    Picture,
    Record,
    Trace,
}

impl FileKind {
    /// Returns the kind of a file; `None` for one that is not shown.
    pub(super) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "html" | "htm" => Some(Self::Page),
            "svg" => Some(Self::Picture),
            "json" | "jsonl" => Some(Self::Record),
            "pftrace" | "perfetto-trace" => Some(Self::Trace),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Picture => "picture",
            Self::Record => "record",
            Self::Trace => "trace",
        }
    }
}

/// Files by the names under which they are served. Only these can be asked for, so no name leads out of the folder.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    pub(super) files: BTreeMap<String, (PathBuf, FileKind)>,
}

impl Served {
    /// Finds the files of a folder, or the one file. Links are left out.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let name = path.display();
        let known =
            fs::metadata(path).map_err(|error| anyhow!("{name}: cannot be read: {error}"))?;
        let mut served = Self::default();
        if known.is_dir() {
            served.search(path, "", DEPTH);
        } else {
            served.add(path, &path.file_name().unwrap_or_default().to_string_lossy());
        }
        if served.files.is_empty() {
            bail!(
                "{name}: nothing to show\n  help: expected files that end in .html, .svg, .json, .jsonl or .pftrace"
            );
        }
        Ok(served)
    }

    fn search(&mut self, folder: &Path, prefix: &str, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(kind) = entry.file_type() else { continue };
            if name.starts_with('.') || self.files.len() >= MOST {
                continue;
            }
            if kind.is_dir() && depth > 0 {
                self.search(&entry.path(), &format!("{prefix}{name}/"), depth - 1);
            } else if kind.is_file() {
                self.add(&entry.path(), &format!("{prefix}{name}"));
            }
        }
    }

    fn add(&mut self, path: &Path, name: &str) {
        if let Some(kind) = FileKind::of(path) {
            self.files.insert(name.to_owned(), (path.to_owned(), kind));
        }
    }
}
