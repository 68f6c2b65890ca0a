//! Served files: the files of a folder that have a known extension, by name.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use rustix::fs::{Mode, OFlags, openat};

/// Maximum depth of folders that are searched.
const DEPTH: usize = 4;
/// Maximum number of files that are listed.
const MOST: usize = 2000;

/// Kind of a file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Page,
    Picture,
    Record,
    Trace,
}

impl FileKind {
    /// Returns the kind of a file; `None` for a file that is not shown.
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

/// Files of a folder by the names under which they are served: their paths relative to the folder.
///
/// Only these names can be requested, and no file is opened through a link. A name therefore never leads out of the
/// folder, even if a file has been replaced since.
#[derive(Debug)]
pub(super) struct Served {
    root: OwnedFd,
    files: BTreeMap<String, (PathBuf, FileKind)>,
}

impl Served {
    /// Finds the files of a folder, or the single file. Links in the folder are omitted.
    pub(super) fn find(path: &Path) -> Result<Self> {
        let name = path.display();
        let unreadable = |error: io::Error| anyhow!("{name}: cannot be read: {error}");
        let path = fs::canonicalize(path).map_err(unreadable)?;
        let (root, file) = match (path.parent(), path.file_name()) {
            (Some(folder), Some(file)) if !path.is_dir() => (folder, Some(file)),
            _ => (path.as_path(), None),
        };
        let root_of = File::open(root).map_err(unreadable)?;
        let mut served = Self { root: root_of.into(), files: BTreeMap::new() };
        match file {
            Some(file) => served.add(Path::new(file)),
            None => served.search(root, Path::new(""), DEPTH),
        }
        if served.files.is_empty() {
            bail!(
                "{name}: nothing to show\n  help: expected files that end in .html, .svg, .json, .jsonl or .pftrace"
            );
        }
        Ok(served)
    }

    /// Returns names and kinds, sorted by name.
    pub(super) fn list(&self) -> impl Iterator<Item = (&str, FileKind)> {
        self.files.iter().map(|(name, (_, kind))| (name.as_str(), *kind))
    }

    /// Returns the kind of a file; `None` if no file has this name.
    pub(super) fn kind(&self, name: &str) -> Option<FileKind> {
        self.files.get(name).map(|(_, kind)| *kind)
    }

    /// Opens a file by its name. Every part of the path must still have the type that it had when it was found: no
    /// links, and a regular file at the end.
    pub(super) fn open(&self, name: &str) -> io::Result<File> {
        let (path, _) = self.files.get(name).ok_or(ErrorKind::NotFound)?;
        let parts: Vec<&OsStr> = path.iter().collect();
        let (file, folders) = parts.split_last().ok_or(ErrorKind::NotFound)?;
        let mut at = self.root.try_clone()?;
        for folder in folders {
            at = open_at(&at, folder, OFlags::DIRECTORY)?;
        }
        // Opening a pipe must not block.
        let file = File::from(open_at(&at, file, OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
    }

    fn search(&mut self, root: &Path, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if name.to_string_lossy().starts_with('.') || self.files.len() >= MOST {
                continue;
            }
            if kind.is_dir() && depth > 0 {
                self.search(root, &folder.join(name), depth - 1);
            } else if kind.is_file() {
                self.add(&folder.join(name));
            }
        }
    }

    fn add(&mut self, path: &Path) {
        if let Some(kind) = FileKind::of(path) {
            self.files.insert(path.to_string_lossy().into_owned(), (path.to_owned(), kind));
        }
    }
}

fn open_at(folder: &OwnedFd, name: &OsStr, kind: OFlags) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | kind;
    Ok(openat(folder, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A file or a folder that was replaced by a link after the start was served with the contents of the target.
    #[test]
    fn links_made_after_the_start_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("cubeyard-view-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::create_dir_all(folder.with_extension("outside")).unwrap();
        let secret = folder.with_extension("outside").join("b.json");
        for file in ["a.json", "inner/b.json", "c.json"] {
            fs::write(folder.join(file), "{}").unwrap();
        }
        fs::write(&secret, "secret").unwrap();
        let served = Served::find(&folder).unwrap();
        assert_eq!(served.list().count(), 3);
        assert!(served.open("inner/b.json").is_ok() && served.open("c.json").is_ok());
        fs::remove_file(folder.join("a.json")).unwrap();
        symlink(&secret, folder.join("a.json")).unwrap();
        fs::remove_dir_all(folder.join("inner")).unwrap();
        symlink(folder.with_extension("outside"), folder.join("inner")).unwrap();
        fs::remove_file(folder.join("c.json")).unwrap();
        fs::create_dir(folder.join("c.json")).unwrap();
        assert!(folder.join("inner/b.json").is_file(), "the link leads to a file");
        for name in ["a.json", "inner/b.json", "c.json", "d.json"] {
            assert!(served.open(name).is_err(), "{name}");
        }
        fs::remove_dir_all(folder.with_extension("outside")).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
