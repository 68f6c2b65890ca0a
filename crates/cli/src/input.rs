//! Reads trace files, compressed or not.

mod folder;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use cubeyard_memory::Bytes;
use cubeyard_replay::trace::{self, Form, Lag, ReadError, Trace};
use flate2::bufread::MultiGzDecoder;

/// Number of bytes read before the format of a file is determined.
const BEGINNING: usize = 1 << 16;

/// Trace of a ResNet-50 training run, for users who have no trace.
const BUNDLED: &[u8] = include_bytes!("resnet_train.csv.gz");

/// A trace with its file; `None` for the bundled trace.
#[derive(Debug)]
pub struct Input {
    /// Path of the file as given.
    pub file: Option<PathBuf>,
    /// Trace that was read from the file.
    pub trace: Trace,
}

impl Input {
    /// Returns this input with another rule by which the work of its streams completes.
    #[must_use]
    pub fn with_lag(self, lag: Lag) -> Self {
        Self { trace: self.trace.with_lag(lag), ..self }
    }
}

/// Error of work that needs more memory than `--memory` allows.
#[derive(Debug)]
pub struct MemoryExceeded {
    what: String,
    limit: Bytes,
}

impl MemoryExceeded {
    pub(crate) fn new(what: impl fmt::Display, limit: Bytes) -> Self {
        Self { what: what.to_string(), limit }
    }
}

impl fmt::Display for MemoryExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} takes more than {} of memory, which is the limit\n  help: allow more with --memory \
             SIZE, or record a shorter part of the work",
            self.what, self.limit
        )
    }
}

impl std::error::Error for MemoryExceeded {}

/// Returns the bundled trace: ResNet-50 in training.
pub fn bundled(limit: Bytes) -> Result<Vec<Input>> {
    let bytes = decompress(BUNDLED, limit)
        .map_err(|error| unreadable(error, "the bundled trace", limit))?;
    let traces = trace::read("resnet_train", &bytes, limit)?;
    Ok(traces.into_iter().map(|trace| Input { file: None, trace }).collect())
}

/// Reads the traces of a file, or of all trace files in a folder, recognised by their extensions. Uses at most `limit`
/// of memory for the files and their traces.
pub fn read(path: &Path, names: &mut Names, limit: Bytes) -> Result<Vec<Input>> {
    if !path.is_dir() {
        return read_file(path, names, limit);
    }
    let (mut inputs, mut left) = (Vec::new(), limit);
    for file in folder::files(path)? {
        let found = read_file(&file, names, left)?;
        left = left.saturating_sub(found.iter().map(|input| input.trace.memory()).sum());
        inputs.extend(found);
    }
    Ok(inputs)
}

fn read_file(file: &Path, names: &mut Names, limit: Bytes) -> Result<Vec<Input>> {
    let shown = printable(&file.to_string_lossy());
    let at = |problem: &str, help: &str| anyhow!("{shown}: {problem}\n  help: {help}");
    let opened = File::open(file).map_err(|error| at(&error.to_string(), "check the path"))?;
    let traces = parse(opened, &shown, &names.name(file), limit)?;
    Ok(traces.into_iter().map(|trace| Input { file: Some(file.to_owned()), trace }).collect())
}

/// Reads the traces of a source. `shown` is the source's name in error messages, and `name` is the name of the traces.
/// The source and its traces use at most `limit` of memory.
pub fn parse(source: impl Read, shown: &str, name: &str, limit: Bytes) -> Result<Vec<Trace>> {
    let bytes = decompress(source, limit).map_err(|error| unreadable(error, shown, limit))?;
    let traces = trace::read(name, &bytes, limit);
    let traces = traces.map_err(|error| unreadable(error.into(), shown, limit))?;
    if traces.is_empty() {
        let problem = "the snapshot holds no allocation";
        return Err(anyhow!("{shown}: {problem}\n  help: {NO_HISTORY}"));
    }
    Ok(traces)
}

/// Error of reading a file or its traces.
#[derive(Debug)]
enum Unreadable {
    Io(io::Error),
    Trace(ReadError),
    Memory,
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ReadError> for Unreadable {
    fn from(error: ReadError) -> Self {
        if error.memory_limit().is_some() { Self::Memory } else { Self::Trace(error) }
    }
}

/// Adds the name of the file and help to an error.
fn unreadable(error: Unreadable, file: &str, limit: Bytes) -> anyhow::Error {
    match error {
        Unreadable::Memory => MemoryExceeded::new(format!("{file}: reading it"), limit).into(),
        Unreadable::Io(error) => anyhow!("{file}: {error}\n  help: {}", read_remedy(error.kind())),
        Unreadable::Trace(error) => anyhow!("{file}: {error}\n  help: {}", remedy(&error)),
    }
}

const RECORD_AGAIN: &str = "copy or record the file again";
const NO_HISTORY: &str =
    "call torch.cuda.memory._record_memory_history() before the work that you want to see";
const TAKE_AGAIN: &str = "take the snapshot again with torch.cuda.memory._dump_snapshot(FILE)";

fn read_remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::IsADirectory => "name the files in it",
        _ => RECORD_AGAIN,
    }
}

fn remedy(error: &ReadError) -> &'static str {
    match error {
        ReadError::Empty => RECORD_AGAIN,
        ReadError::Gzip => "the file was compressed twice; decompress it once",
        ReadError::Foreign { .. } | ReadError::Unknown { .. } => {
            "make a snapshot with torch.cuda.memory._dump_snapshot(FILE), or a log with RMM's \
             logging_resource_adaptor"
        }
        ReadError::Rmm(_) => {
            "correct the log, or record it again with RMM's logging_resource_adaptor"
        }
        ReadError::Snapshot(_) => TAKE_AGAIN,
        ReadError::Script(_) | ReadError::Text { .. } => "correct the script",
    }
}

/// Reads a file up to `limit` bytes, and decompresses it if it is gzip.
fn decompress(mut file: impl Read, limit: Bytes) -> Result<Vec<u8>, Unreadable> {
    let mut start = Vec::new();
    file.by_ref().take(2).read_to_end(&mut start)?;
    let is_gzip = start == [0x1f, 0x8b];
    let whole = io::Cursor::new(start).chain(file);
    let mut bytes = Vec::new();
    if is_gzip {
        let read = read_up_to(MultiGzDecoder::new(BufReader::new(whole)), limit, &mut bytes);
        read.map_err(|error| match error {
            Unreadable::Io(error) => Unreadable::Io(gzip_error(&error, bytes.len())),
            other => other,
        })?;
    } else {
        read_up_to(whole, limit, &mut bytes)?;
    }
    Ok(bytes)
}

/// Reads to the end of the source, unless it exceeds `limit` or does not begin like a trace.
fn read_up_to(mut source: impl Read, limit: Bytes, bytes: &mut Vec<u8>) -> Result<(), Unreadable> {
    let mut known = false;
    loop {
        // Grows by a quarter, so that at most a quarter more memory is allocated than was read.
        let left = (limit.get() - bytes.len() as u64).saturating_add(1);
        let wanted =
            usize::try_from(left).unwrap_or(usize::MAX).min((bytes.len() / 4).max(BEGINNING));
        bytes.reserve_exact(wanted);
        let read = source.by_ref().take(wanted as u64).read_to_end(bytes)?;
        if bytes.len() as u64 > limit.get() {
            return Err(Unreadable::Memory);
        }
        if read < wanted {
            return Ok(());
        }
        known = known || Form::of_beginning(bytes)?.is_some();
    }
}

fn gzip_error(error: &io::Error, read: usize) -> io::Error {
    let problem = match error.kind() {
        ErrorKind::UnexpectedEof => "expected more, found the end of the file".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("gzip, byte {read} of what is in it: {problem}"))
}

/// Generator of unique names for traces.
#[derive(Debug, Default)]
pub struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Returns the file's name without directories and extensions; parts of them are kept where the name would
    /// not be unique without them.
    fn name(&mut self, file: &Path) -> String {
        let full = printable(&file.file_name().unwrap_or_default().to_string_lossy());
        let path = printable(&file.to_string_lossy());
        let numbered = (2..).map(|number| format!("{path} ({number})"));
        let mut names =
            [without_endings(&full).to_owned(), full, path.clone()].into_iter().chain(numbered);
        let name = names.find(|name| !name.is_empty() && !self.taken.contains(name));
        let name = name.expect("numbers do not end");
        self.taken.insert(name.clone());
        name
    }
}

/// Extensions of trace files, excluding the extension of gzip.
const ENDINGS: [&str; 5] = [".csv", ".pickle", ".pkl", ".trace", ".log"];

fn without_endings(name: &str) -> &str {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Reads at most `limit` bytes of a file. Also returns the name of the file, without control characters.
pub(crate) fn named_bytes(file: &Path, limit: u64) -> Result<(String, Vec<u8>)> {
    let name = printable(&file.to_string_lossy());
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|error| anyhow!("{name}: {error}\n  help: check the path"))?;
    Ok((name, bytes))
}

/// Replaces control characters, which a terminal would interpret.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Bytes = Bytes::mib(64);

    struct Endless<'a>(u8, &'a mut usize);

    impl Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(self.0);
            *self.1 += buffer.len();
            Ok(buffer.len())
        }
    }

    #[test]
    fn what_can_be_no_trace_is_refused_by_its_first_bytes() {
        for byte in [0, b'x', b'{', 0x80] {
            let mut read = 0;
            let error = decompress(Endless(byte, &mut read), Bytes::gib(64)).unwrap_err();
            assert!(matches!(error, Unreadable::Trace(_)), "{byte}: {error:?}");
            assert!(read < 1 << 20, "{byte}: {read}");
        }
        // Blank lines may be followed by anything: they are read up to the limit and no further.
        let mut read = 0;
        let error = decompress(Endless(b'\n', &mut read), LIMIT).unwrap_err();
        assert!(matches!(error, Unreadable::Memory), "{error:?}");
        assert!(read as u64 <= LIMIT.get() + 1, "{read}");
    }

    fn name(names: &mut Names, file: &str) -> String {
        names.name(Path::new(file))
    }

    #[test]
    fn traces_are_named_by_their_files() {
        let mut names = Names::default();
        assert_eq!(name(&mut names, "a/b.csv.gz"), "b");
        assert_eq!(name(&mut names, "a/b.pickle.gz"), "b.pickle.gz");
        assert_eq!(name(&mut names, "c/b.pickle.gz"), "c/b.pickle.gz");
        assert_eq!(name(&mut names, "c/b.pickle.gz"), "c/b.pickle.gz (2)");
        assert_eq!(name(&mut names, ".trace"), ".trace");
        assert_eq!(name(&mut names, "x\u{1b}[31m.trace"), "x\u{fffd}[31m");
        assert_eq!(name(&mut names, ".."), "..");
    }

    #[test]
    fn the_limit_is_on_what_was_decompressed() {
        let size = decompress(BUNDLED, LIMIT).unwrap().len() as u64;
        assert!(decompress(BUNDLED, Bytes::new(size)).is_ok());
        let error = decompress(BUNDLED, Bytes::new(size - 1)).unwrap_err();
        assert!(matches!(error, Unreadable::Memory), "{error:?}");
        assert!(decompress(&b"12"[..], Bytes::new(2)).is_ok());
        assert!(decompress(&b"123"[..], Bytes::new(2)).is_err());
    }

    #[test]
    fn gzip_that_is_cut_off_is_an_error() {
        for length in [2, 9, 40, BUNDLED.len() / 2, BUNDLED.len() - 1] {
            assert!(decompress(&BUNDLED[..length], LIMIT).is_err(), "{length}");
        }
        assert_eq!(decompress(&BUNDLED[..1], LIMIT).unwrap(), [0x1f]);
    }
}
