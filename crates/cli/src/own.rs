//! Benches in addition to the built-in ones: from a program that links this crate, or from files.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use cubeyard_bench::{Bench, BenchError, catalogue};
use cubeyard_yaml::nearest;

use crate::code::Code;
use crate::sweep::SweepRequest;

/// Error message for features that need the Python package.
const INSTALL: &str = "this program was built without Python; install the package with `pip install cubeyard`, \
                       then run the same command";

/// Error of a front, as text with the file and line.
pub type FrontError = Box<dyn std::error::Error + Send + Sync>;

/// Benches that a program adds to the command. Implemented by functions that return benches.
pub trait OwnBenches {
    /// Returns the benches that are found by name, before the built-in ones.
    fn benches(&self) -> Vec<Box<dyn Bench>> {
        Vec::new()
    }

    /// Returns the benches of a file, in the order of the file.
    fn of_file(&self, path: &Path) -> Result<Vec<Box<dyn Bench>>, FrontError> {
        Err(format!("{}: {INSTALL}", path.display()).into())
    }

    /// Runs the configurations of a sweep.
    fn sweep(&self, request: &SweepRequest) -> Result<Code, FrontError> {
        Err(format!("{}: {INSTALL}", request.file.display()).into())
    }
}

/// Only the built-in benches.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIn;

impl OwnBenches for BuiltIn {}

impl<F: Fn() -> Vec<Box<dyn Bench>>> OwnBenches for F {
    fn benches(&self) -> Vec<Box<dyn Bench>> {
        self()
    }
}

/// Returns the benches of the front and the built-in ones; duplicate names are an error.
pub(crate) fn all(front: &dyn OwnBenches) -> Result<Vec<Box<dyn Bench>>> {
    let mut all = front.benches();
    all.extend(catalogue());
    distinct(&all, "the program")?;
    Ok(all)
}

/// Returns the benches of a file; duplicate names are an error.
pub(crate) fn of_file(front: &dyn OwnBenches, path: &Path) -> Result<Vec<Box<dyn Bench>>> {
    let benches = front.of_file(path).map_err(|error| anyhow!(error))?;
    distinct(&benches, &path.display().to_string())?;
    Ok(benches)
}

fn distinct(benches: &[Box<dyn Bench>], place: &str) -> Result<()> {
    for (index, bench) in benches.iter().enumerate() {
        if benches[..index].iter().any(|other| other.name() == bench.name()) {
            bail!("{place} has two benches with the name `{}`\n  help: rename one", bench.name());
        }
    }
    Ok(())
}

/// Splits `FILE.py[::NAME]`; `None` for a name without a file.
pub(crate) fn file(target: &str) -> Option<(&Path, Option<&str>)> {
    let (path, name) = match target.split_once("::") {
        Some((path, name)) => (path, Some(name)),
        None => (target, None),
    };
    let path = Path::new(path);
    path.extension().is_some_and(|it| it == "py").then_some((path, name))
}

/// Returns the bench with the given name, or the bench that `FILE.py[::NAME]` refers to.
pub(crate) fn find(front: &dyn OwnBenches, target: &str) -> Result<Box<dyn Bench>> {
    match file(target) {
        Some((path, Some(name))) => Ok(named(of_file(front, path)?, name)?),
        Some((path, None)) => only(of_file(front, path)?, path),
        None => Ok(named(all(front)?, target)?),
    }
}

fn named(mut benches: Vec<Box<dyn Bench>>, name: &str) -> Result<Box<dyn Bench>, BenchError> {
    if let Some(place) = benches.iter().position(|bench| bench.name() == name) {
        return Ok(benches.swap_remove(place));
    }
    let nearest = nearest(name, benches.iter().map(|bench| bench.name())).map(str::to_owned);
    Err(BenchError::NoSuchBench { name: name.to_owned(), nearest })
}

fn only(mut benches: Vec<Box<dyn Bench>>, path: &Path) -> Result<Box<dyn Bench>> {
    let file = path.display();
    match (benches.len(), benches.pop()) {
        (1, Some(bench)) => Ok(bench),
        (_, Some(last)) => {
            let names: Vec<_> = benches.iter().map(|bench| bench.name()).collect();
            let names = [names.as_slice(), &[last.name()]].concat().join(", ");
            bail!(
                "{file} has several benches: {names}\n  help: name one, as in {file}::{}",
                last.name()
            )
        }
        (_, None) => bail!("{file} has no bench\n  help: decorate a function with @cubeyard.bench"),
    }
}
