//! Records by key, and the file to which each is appended as soon as it is added.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use cubeyard_bench::record::{Record, RecordError};
use thiserror::Error;

use file::RecordFile;

/// First bytes of every record.
const BEGINNING: &[u8] = b"{\"format\":";

/// Records by the [key](Record::key) of their inputs.
///
/// With a file, each record is appended at once, and the file is locked until this value is dropped: a second
/// writer is refused. A writer that is killed leaves whole records and at most one incomplete line, which the
/// next writer cuts off.
#[derive(Debug)]
pub struct Records {
    file: Option<RecordFile>,
    found: BTreeMap<String, Found>,
    /// Number of records read or added.
    count: usize,
}

/// Record as written, without the newline.
#[derive(Debug)]
struct Found {
    line: String,
    is_failed: bool,
    /// Position in the order in which records were read or added.
    place: usize,
}

/// Error of a file of records.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// The file cannot be opened, read or replaced; name another one.
    #[error("{}: {}", .path.display(), reason(.error))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A record cannot be appended, for example because the disk is full; earlier records are kept.
    #[error("{}: {}; earlier records are kept: repeat the call to resume once there is space", .path.display(), reason(.error))]
    Append {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The path names a device, a pipe or a folder; name another file.
    #[error("{}: expected a regular file", .0.display())]
    NotPlain(PathBuf),
    /// The file is being written by another process, or elsewhere in this process; wait for that to end,
    /// or name another file.
    #[error("{}: another sweep is writing this file", .0.display())]
    Busy(PathBuf),
    /// A line is not a record of this version. The file is unchanged; name another one, or create all records again.
    #[error("{}:{number}: {error}", .path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        number: usize,
        /// Error of the record.
        error: RecordError,
    },
    /// The last line is not the beginning of a record. The file is unchanged; name another one, or
    /// create all records again.
    #[error("{}:{number}: not a record", .path.display())]
    Torn {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        number: usize,
    },
}

/// Returns the text of a system error without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl Records {
    /// Opens a file, and creates it if it does not exist; with `None`, records are kept only in memory. Existing
    /// records of the file are kept if `resume` is set, and removed otherwise.
    pub fn open(path: Option<&Path>, resume: bool) -> Result<Self, RecordsError> {
        let file = path.map(RecordFile::open).transpose()?;
        let mut records = Self { file, found: BTreeMap::new(), count: 0 };
        if resume {
            records.read()?;
        } else {
            records.clear()?;
        }
        Ok(records)
    }

    fn clear(&mut self) -> Result<(), RecordsError> {
        self.file.as_mut().map_or(Ok(()), |file| file.cut(0))
    }

    /// Reads the file. An incomplete last line is ignored and cut off.
    fn read(&mut self) -> Result<(), RecordsError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let contents = file.contents()?;
        let end = contents.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let (whole, torn) = contents.split_at(end);
        let mut lines = 0;
        for (place, line) in String::from_utf8_lossy(whole).lines().enumerate() {
            lines = place + 1;
            let wrong = |error| RecordsError::Line { path: file.path(), number: lines, error };
            let record = Record::read(line).map_err(wrong)?;
            self.found.remove(&record.key());
            self.keep(&record);
        }
        if !torn.is_empty() {
            if !torn.starts_with(&BEGINNING[..torn.len().min(BEGINNING.len())]) {
                return Err(RecordsError::Torn { path: file.path(), number: lines + 1 });
            }
            file.cut(end as u64)?;
        }
        self.file = Some(file);
        Ok(())
    }

    fn keep(&mut self, record: &Record) -> String {
        let (key, line) = (record.key(), record.line());
        let place = self.found.get(&key).map_or(self.count, |known| known.place);
        self.count += 1;
        self.found
            .insert(key, Found { line: line.clone(), is_failed: record.error.is_some(), place });
        line
    }

    /// Returns whether there is a record with this key that has no error.
    pub fn has(&self, key: &str) -> bool {
        self.found.get(key).is_some_and(|found| !found.is_failed)
    }

    /// Returns the record with this key as written, without the newline.
    pub fn line(&self, key: &str) -> Option<&str> {
        self.found.get(key).map(|found| found.line.as_str())
    }

    /// Adds a record, replacing one with the same key, and appends it to the file: completely or not at all.
    pub fn add(&mut self, record: &Record) -> Result<(), RecordsError> {
        let line = self.keep(record) + "\n";
        self.file.as_mut().map_or(Ok(()), |file| file.append(line.as_bytes()))
    }

    /// Rewrites the file: records with the given keys in their order, then the others in the order in which they were
    /// added. If this fails, the file is unchanged.
    pub fn sort(&mut self, keys: &[String]) -> Result<(), RecordsError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let ours: BTreeSet<&String> = keys.iter().collect();
        let mut others: Vec<_> = self.found.iter().filter(|(key, _)| !ours.contains(key)).collect();
        others.sort_unstable_by_key(|(_, found)| found.place);
        let others = others.into_iter().map(|(_, found)| found);
        let found = keys.iter().filter_map(|key| self.found.get(key)).chain(others);
        file.replace(&found.map(|it| it.line.clone() + "\n").collect::<String>())
    }
}
