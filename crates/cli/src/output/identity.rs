//! Which file a path is, whatever it is called.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A regular file, or one that will be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Device and inode.
    There([u64; 2]),
    /// Device and inode of its folder, and its name.
    New([u64; 2], OsString),
}

/// The way to write to a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is what standard output goes to.
    Output,
    /// It is what standard error goes to.
    Error,
    /// It is a pipe, a device, or open already.
    Shared,
    /// It is a regular file, or none yet: its path with all links followed.
    Regular(PathBuf),
}

/// The identity of what a path leads to; none for what can be shared, such as a pipe or a device.
pub(super) fn of(path: &Path) -> Option<Identity> {
    if let Ok(metadata) = fs::metadata(path) {
        return metadata.is_file().then(|| Identity::There(key(&metadata)));
    }
    let to = resolve(path);
    let folder = fs::metadata(folder(&to)).ok()?;
    Some(Identity::New(key(&folder), to.file_name()?.to_owned()))
}

/// The way to write to a path.
pub(super) fn place(path: &Path) -> Place {
    let there = fs::metadata(path).ok();
    let is_of = |stream: &dyn AsFd| {
        let stream = stream.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
        stream.ok().zip(there.as_ref()).is_some_and(|(stream, there)| key(&stream) == key(there))
    };
    match &there {
        _ if is_of(&io::stdout()) => Place::Output,
        _ if is_of(&io::stderr()) => Place::Error,
        Some(metadata) if !metadata.is_file() => Place::Shared,
        _ => regular(path),
    }
}

fn regular(path: &Path) -> Place {
    let is_open = |step: &PathBuf| folder(step).ends_with("fd") && step.starts_with("/proc");
    let steps: Vec<PathBuf> = links(path).collect();
    match steps.last() {
        Some(to) if !steps.iter().any(is_open) => Place::Regular(to.clone()),
        _ => Place::Shared,
    }
}

/// The path behind all links of the last name, whether anything is there or not.
pub(super) fn resolve(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_else(|| path.to_owned())
}

/// A path, and those that links lead to from there. Links that go round end after as many as Linux follows.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |at: &PathBuf| Some(folder(at).join(fs::read_link(at).ok()?));
    std::iter::successors(Some(path.to_owned()), next).take(41)
}

/// The folder that a path is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn key(metadata: &Metadata) -> [u64; 2] {
    [metadata.dev(), metadata.ino()]
}
