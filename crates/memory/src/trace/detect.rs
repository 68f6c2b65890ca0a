//! Telling the forms of traces apart.

use thiserror::Error;

use super::script::{self, Script, ScriptError};
use super::snapshot::{self, SnapshotError};
use super::{Trace, rmm};
use crate::excerpt::excerpt;

/// Why a file gave no traces. Its message holds the line or the byte; who opened the file adds its
/// name.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReadError {
    /// There is nothing in it.
    #[error("byte 0: the file is empty")]
    Empty,
    /// It is compressed: decompress it first.
    #[error("byte 0: this is gzip; decompress it first")]
    Gzip,
    /// It is something known that holds no trace.
    #[error("byte 0: this is {what}, which holds no trace: {FORMS}")]
    Foreign {
        /// What it is.
        what: &'static str,
    },
    /// It begins like nothing that is known here.
    #[error("line {line}: a trace does not begin with `{found}`: {FORMS}")]
    Unknown {
        /// The first line that says anything.
        line: usize,
        /// The beginning of that line.
        found: String,
    },
    /// It looks like a log of RMM, but cannot be read as one.
    #[error("RMM log, {0}")]
    Rmm(#[from] rmm::RmmError),
    /// It looks like a snapshot of PyTorch, but cannot be read as one.
    #[error("snapshot, {0}")]
    Snapshot(#[from] SnapshotError),
    /// It looks like a script, but cannot be read as one.
    #[error("script, {0}")]
    Script(#[from] ScriptError),
    /// It looks like a script, but is not text.
    #[error("script, byte {offset}: this is not UTF-8 text")]
    Text {
        /// The first byte that does not belong.
        offset: usize,
    },
}

const FORMS: &str = "expected a PyTorch memory snapshot, an RMM log or a script";

/// How files begin that people might take for a trace.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x89PNG", "a PNG image"),
    (b"\x7fELF", "an executable"),
    (b"%PDF", "a PDF"),
    (b"\x28\xb5\x2f\xfd", "Zstandard-compressed"),
    (b"<", "HTML or XML"),
];

/// Reads the traces in a file, whatever form they have: one for each device that it knows of.
///
/// `name` becomes the name of the trace; where there are several, each adds its device.
pub fn read(name: &str, bytes: &[u8]) -> Result<Vec<Trace>, ReadError> {
    let text = bytes.trim_ascii_start();
    if text.is_empty() {
        return Err(ReadError::Empty);
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Err(ReadError::Gzip);
    }
    if is_pickle(bytes) {
        return Ok(snapshot::read(name, bytes)?);
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(start, _)| text.starts_with(start)) {
        return Err(ReadError::Foreign { what });
    }
    if has_rmm_header(text) {
        return Ok(vec![rmm::read(name, bytes)?]);
    }
    read_script(name, bytes).map(|trace| vec![trace])
}

/// Whether this begins like a pickle of a dictionary: with `PROTO` from protocol 2 on, and before
/// that with the opcodes that make one.
fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 0..=16, ..] | [b'(', b'd', ..] | [b'}', ..])
}

/// Whether the first line names a column of RMM's log among others.
fn has_rmm_header(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let names = || line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    names().count() > 1 && names().any(|name| matches!(name, b"Action" | b"Pointer"))
}

fn read_script(name: &str, bytes: &[u8]) -> Result<Trace, ReadError> {
    check_beginning(bytes)?;
    let text = str::from_utf8(bytes);
    let text = text.map_err(|error| ReadError::Text { offset: error.valid_up_to() })?;
    Ok(Script::parse(text)?.to_trace(name)?)
}

/// Refuses a file whose first statement is none: it is no faulty script, but no script at all.
fn check_beginning(bytes: &[u8]) -> Result<(), ReadError> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    let mut trimmed = lines.map(|(line, text)| (line, text.trim_ascii()));
    let said = trimmed.find(|(_, text)| !text.is_empty() && !text.starts_with(b"#"));
    let Some((line, text)) = said else { return Ok(()) };
    let word = text.split(|byte| byte.is_ascii_whitespace() || *byte == b'#').next();
    match word.and_then(|word| str::from_utf8(word).ok()) {
        Some(word) if script::is_statement(word) => Ok(()),
        _ => Err(ReadError::Unknown { line, found: excerpt(text) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: &[u8]) -> String {
        read("test", bytes).unwrap_err().to_string()
    }

    #[test]
    fn each_form_is_known_by_its_content() {
        let log = b"Thread,Time,Action,Pointer,Size,Stream\n1,0:0:0.0,allocate,0x1,1,0\n";
        let script = b"# a comment, with Action\n\nalloc a 1\n";
        let snapshot = b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]](}(\
            X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x08X\x04\0\0\0sizeK\x01\
            X\x06\0\0\0streamK\0ueau.";
        for bytes in [&log[..], script, snapshot] {
            let traces = read("test", bytes).unwrap();
            assert_eq!((traces.len(), traces[0].allocations), (1, 1));
        }
    }

    #[test]
    fn what_is_foreign_is_named() {
        assert_eq!(message(b" \n"), "byte 0: the file is empty");
        assert_eq!(message(b"\x1f\x8b\x08"), "byte 0: this is gzip; decompress it first");
        assert!(message(b"\x89PNG\r\n\x1a\n").contains("a PNG image"));
        assert!(message(b"\n{\"segments\": []}").contains("JSON"));
        assert!(message(b"Hello, world").starts_with("line 1: a trace does not begin with `Hello"));
        assert!(message(b"\xff\xfe\x00").starts_with("line 1: a trace does not begin with"));
    }

    #[test]
    fn a_fault_is_blamed_on_the_form_that_was_recognized() {
        assert_eq!(
            message(b"Time,Action\n"),
            "RMM log, line 1: the header has no column `Pointer`"
        );
        assert_eq!(
            message(b"\x80\x04}."),
            "snapshot, device_traces: expected a value, found nothing"
        );
        assert!(message(b"(dp0\ncos\n").starts_with("snapshot, byte 5, GLOBAL: expected plain"));
        assert_eq!(message(b"alloc a 1\nfree b"), "script, line 2: `b` is freed, but is not live");
        assert_eq!(message(b"free a # \xff"), "script, byte 9: this is not UTF-8 text");
    }
}
