//! Files that commands write: checked before any work, and whole or not there.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Result, anyhow, bail};

/// Finds out early, before any work, what would surely fail in the end.
pub(crate) fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let name = path.display();
    if !folder.is_dir() {
        let folder = folder.display();
        bail!("{name}: cannot be written, there is no folder {folder}\n  help: create it");
    }
    if path.is_dir() {
        bail!("{name}: cannot be written, it is a folder\n  help: name a file");
    }
    Ok(())
}

/// Writes a file that an option named, over whatever it held. One that cannot be written to its end is taken
/// away.
pub(crate) fn write<E: Into<anyhow::Error>>(
    path: &Path,
    option: &str,
    put: impl FnOnce(BufWriter<File>) -> Result<(), E>,
) -> Result<()> {
    let at = |error: anyhow::Error| {
        let name = path.display();
        anyhow!("{name}: cannot be written: {error:#}\n  help: name another file with {option}")
    };
    let file = File::create(path).map_err(|error| at(error.into()))?;
    // A device or a pipe stays where it is, whatever came of writing to it.
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    put(BufWriter::new(file)).map_err(|error| {
        if is_file {
            let _ = fs::canonicalize(path).and_then(fs::remove_file);
        }
        at(error.into())
    })
}
