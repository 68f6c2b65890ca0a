//! Files that commands write, checked before any work and replaced atomically.
//!
//! A regular file is written under a temporary name beside it and then renamed, so that a command that fails
//! or is interrupted leaves the old contents. Several files are all written before the first is renamed.
//! Pipes, devices and standard output are written in place.

mod identity;
mod temporary;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use identity::{Destination, destination};
use temporary::Temporary;

pub(crate) use temporary::remove_all;

/// Path with the option that sets it, or a description if there is no option.
pub(crate) type Named<'a> = (&'a str, &'a Path);

/// Option of a drawing that is an SVG picture or an HTML page, by the extension of its file; see [`is_page`].
pub(crate) const PICTURE: &str = "--report FILE";

/// Returns the paths of the options that were given.
pub(crate) fn named<'a, const N: usize>(
    options: [(&'a str, &'a Option<PathBuf>); N],
) -> Vec<Named<'a>> {
    let given = |(option, path): (&'a str, &'a Option<PathBuf>)| Some((option, path.as_deref()?));
    options.into_iter().filter_map(given).collect()
}

/// Checks before any work that the outputs can be written, and that none of them is an input or another
/// output.
pub(crate) fn check(inputs: &[Named<'_>], outputs: &[Named<'_>]) -> Result<()> {
    for (number, &(option, path)) in outputs.iter().enumerate() {
        check_place(path)?;
        let Some(output) = identity::of(path) else { continue };
        let is_same = |(_, other): &&Named<'_>| identity::of(other).as_ref() == Some(&output);
        let name = path.display();
        if let Some((other, _)) = inputs.iter().find(is_same) {
            bail!(
                "{name}: cannot be written: {other} is read from this file\n  help: name another file with {option}"
            );
        }
        if let Some((other, _)) = outputs[..number].iter().find(is_same) {
            bail!(
                "{name}: cannot be written: {other} is written to this file\n  help: name another file with {option}"
            );
        }
    }
    outputs.iter().try_for_each(|&(option, path)| check_ending(path, option))
}

/// Extensions of the files that options write. Options that choose the format by extension check it themselves.
const FORMATS: [(&str, &[&str]); 4] = [
    ("--trace", &["pftrace", "perfetto-trace", "trace", "pb"]),
    ("--report", &["html", "htm"]),
    ("--save", &["json", "jsonl"]),
    ("--csv", &["csv"]),
];

/// File extensions that denote a format.
const ENDINGS: [&str; 16] = [
    "csv", "gif", "gz", "htm", "html", "jpg", "json", "jsonl", "md", "pdf", "pftrace", "png",
    "svg", "txt", "yaml", "yml",
];

/// Refuses a file name whose extension denotes a format that the output does not have. Names without an extension, or
/// with an unknown extension, are accepted.
fn check_ending(path: &Path, option: &str) -> Result<()> {
    let known = FORMATS.iter().find(|(known, _)| *known == option);
    let Some((_, formats)) = known else { return Ok(()) };
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_other = ENDINGS.contains(&ending.as_str()) && !formats.contains(&ending.as_str());
    if is_other {
        let name = path.display();
        let formats: Vec<_> = formats.iter().map(|ending| format!(".{ending}")).collect();
        let formats = formats.join(" or ");
        bail!(
            "{name}: {option} writes {formats}, not .{ending}\n  help: name a file that ends in {formats}"
        );
    }
    Ok(())
}

/// Returns whether a drawing is written as an HTML page rather than an SVG file; an error for any other extension.
pub(crate) fn is_page(path: &Path) -> Result<bool> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    match ending.as_str() {
        "svg" => Ok(false),
        "html" | "htm" => Ok(true),
        _ => {
            bail!("{}: cannot be drawn\n  help: name an .svg or an .html file", path.display())
        }
    }
}

fn check_place(path: &Path) -> Result<()> {
    let to = identity::resolve(path);
    let (name, folder) = (path.display(), identity::folder(&to));
    if folder.exists() && !folder.is_dir() {
        let folder = folder.display();
        bail!("{name}: cannot be written: {folder} is not a folder\n  help: name another file");
    }
    if !folder.is_dir() {
        let folder = folder.display();
        bail!("{name}: cannot be written: there is no folder {folder}\n  help: create the folder");
    }
    if path.is_dir() {
        bail!("{name}: cannot be written: it is a folder\n  help: name a file");
    }
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match is_file.then(|| File::options().write(true).open(path)) {
        Some(Err(error)) => bail!("{name}: cannot be written: {error}\n  help: name another file"),
        _ => Ok(()),
    }
}

/// Files that are written first and then renamed together.
#[derive(Debug, Default)]
pub(crate) struct Files {
    beside: Vec<Beside>,
}

/// File under its temporary name, with its destination.
#[derive(Debug)]
struct Beside {
    temporary: Temporary,
    to: PathBuf,
    name: PathBuf,
    option: &'static str,
}

impl Files {
    /// Writes the file of an option. A regular file gets its name in [`finish`](Self::finish); others
    /// are written in place.
    pub(crate) fn write<T, E: Into<anyhow::Error>>(
        &mut self,
        path: &Path,
        option: &'static str,
        put: impl FnOnce(&mut BufWriter<File>) -> Result<T, E>,
    ) -> Result<()> {
        let written = match destination(path) {
            Destination::Output => clone_of(io::stdout()).and_then(|file| fill(file, put)),
            Destination::Error => clone_of(io::stderr()).and_then(|file| fill(file, put)),
            Destination::Shared => {
                File::create(path).map_err(Into::into).and_then(|file| fill(file, put))
            }
            Destination::Regular(to) => {
                Temporary::beside(&to).map_err(Into::into).and_then(|(temporary, file)| {
                    fill(file, put)?;
                    self.beside.push(Beside { temporary, to, name: path.to_owned(), option });
                    Ok(())
                })
            }
        };
        written.map_err(|error| refused(path, option, &error))
    }

    /// Renames all files to their destinations.
    pub(crate) fn finish(self) -> Result<()> {
        for Beside { temporary, to, name, option } in self.beside {
            temporary.rename(&to).map_err(|error| refused(&name, option, &error.into()))?;
        }
        Ok(())
    }
}

/// Writes the file of an option, replacing its contents.
pub(crate) fn write(path: &Path, option: &'static str, contents: &str) -> Result<()> {
    let mut files = Files::default();
    files.write(path, option, |file| file.write_all(contents.as_bytes()))?;
    files.finish()
}

fn refused(path: &Path, option: &str, error: &anyhow::Error) -> anyhow::Error {
    let name = path.display();
    anyhow!("{name}: cannot be written: {error:#}\n  help: name another file with {option}")
}

/// Duplicates a stream as a file that shares its position, so that later output is appended.
fn clone_of(stream: impl AsFd) -> Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

fn fill<T, E: Into<anyhow::Error>>(
    file: File,
    put: impl FnOnce(&mut BufWriter<File>) -> Result<T, E>,
) -> Result<()> {
    let mut file = BufWriter::new(file);
    put(&mut file).map_err(Into::into)?;
    Ok(file.flush()?)
}
