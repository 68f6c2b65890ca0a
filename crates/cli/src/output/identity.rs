//! Determines the file that a path refers to.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Identity of a regular file, which may not exist yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// Existing file, identified by device and inode.
    There([u64; 2]),
    /// New file, identified by the device and inode of its directory, and its name.
    New([u64; 2], OsString),
}

/// Kind of destination that a path refers to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The target of standard output.
    Output,
    /// The target of standard error.
    Error,
    /// A pipe, a device, or a file that is already open.
    Shared,
    /// Regular file, which may not exist yet, by its path with all links resolved.
    Regular(PathBuf),
}

/// Returns the identity of a regular file; `None` for a target that can be shared, such as a pipe or a device.
pub(super) fn of(path: &Path) -> Option<Identity> {
    if let Ok(metadata) = fs::metadata(path) {
        return metadata.is_file().then(|| Identity::There(key(&metadata)));
    }
    let to = resolve(path);
    let folder = fs::metadata(folder(&to)).ok()?;
    Some(Identity::New(key(&folder), to.file_name()?.to_owned()))
}

/// Returns the kind of destination that a path refers to.
pub(super) fn destination(path: &Path) -> Destination {
    let there = fs::metadata(path).ok();
    let is_of = |stream: &dyn AsFd| {
        let stream = stream.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
        stream.ok().zip(there.as_ref()).is_some_and(|(stream, there)| key(&stream) == key(there))
    };
    match &there {
        _ if is_of(&io::stdout()) => Destination::Output,
        _ if is_of(&io::stderr()) => Destination::Error,
        Some(metadata) if !metadata.is_file() => Destination::Shared,
        _ => regular(path),
    }
}

fn regular(path: &Path) -> Destination {
    let is_open = |step: &PathBuf| folder(step).ends_with("fd") && step.starts_with("/proc");
    let steps: Vec<PathBuf> = links(path).collect();
    match steps.last() {
        Some(to) if !steps.iter().any(is_open) => Destination::Regular(to.clone()),
        _ => Destination::Shared,
    }
}

/// Resolves the symbolic links of a path's last component, whether or not the target exists.
pub(super) fn resolve(path: &Path) -> PathBuf {
    links(path).last().unwrap_or_else(|| path.to_owned())
}

/// Returns a path and the paths that its links lead to. The number is limited to the number that Linux follows, because
/// links can form a cycle.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |at: &PathBuf| Some(folder(at).join(fs::read_link(at).ok()?));
    std::iter::successors(Some(path.to_owned()), next).take(41)
}

/// Returns the directory of a path.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn key(metadata: &Metadata) -> [u64; 2] {
    [metadata.dev(), metadata.ino()]
}
