//! Detection of trace formats.

use thiserror::Error;

use super::Trace;
use super::rmm::{self, RmmError};
use super::script::{self, ScriptError};
use super::snapshot::{self, SnapshotError};
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::excerpt;
use cubeyard_pickle::{self as pickle, Limits};
use cubeyard_units::Bytes;

/// Reason why a file holds no traces. The message states the line or the byte; the caller adds the name of the file.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ReadError {
    /// The file is empty.
    #[error("byte 0: the file is empty")]
    Empty,
    /// The file is compressed: decompress it first.
    #[error("byte 0: this is gzip; decompress it first")]
    Gzip,
    /// The file has a known format that does not hold traces.
    #[error("byte 0: this is {what}, which holds no trace: {FORMS}")]
    Foreign {
        /// Name of the format.
        what: &'static str,
    },
    /// The beginning of the file matches no known format.
    #[error("line {line}: a trace does not begin with `{found}`: {FORMS}")]
    Unknown {
        /// Number of the first line with content.
        line: usize,
        /// Start of that line.
        found: String,
    },
    /// The file looks like an RMM log, but cannot be read as one.
    #[error("RMM log, {0}")]
    Rmm(#[from] RmmError),
    /// The file looks like a PyTorch snapshot, but cannot be read as one.
    #[error("snapshot, {0}")]
    Snapshot(#[from] SnapshotError),
    /// The file looks like a script, but cannot be read as one.
    #[error("script, {0}")]
    Script(#[from] ScriptError),
    /// The file looks like a script, but is not text.
    #[error("script, byte {offset}: this is not UTF-8 text")]
    Text {
        /// Offset of the first invalid byte.
        offset: usize,
    },
}

const FORMS: &str = "expected a PyTorch memory snapshot, an RMM log or a script";

/// Beginnings of files that could be mistaken for a trace.
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

/// Format of a trace, detected from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Memory snapshot of PyTorch, a pickle.
    Snapshot,
    /// Log of RAPIDS RMM.
    Rmm,
    /// Script as in [`script`].
    Script,
}

impl Form {
    /// Detects the format of a file from its first bytes.
    ///
    /// Returns `None` if these bytes are only blank lines and comments, so that more are needed. It is an error if no
    /// trace can begin like this.
    ///
    /// ```
    /// use cubeyard_replay::trace::Form;
    /// assert_eq!(Form::of_beginning(b"alloc weights 30 Mi"), Ok(Some(Form::Script)));
    /// assert_eq!(Form::of_beginning(b"# weights\n\n"), Ok(None));
    /// assert!(Form::of_beginning(&[0; 100]).is_err());
    /// ```
    pub fn of_beginning(start: &[u8]) -> Result<Option<Self>, ReadError> {
        let form = Self::of(start, false)?;
        if form == Some(Self::Snapshot) {
            pickle::check_beginning(start, &Limits::default()).map_err(SnapshotError::from)?;
        }
        Ok(form)
    }

    /// Detects the format of a beginning, or of a complete file if `whole` is set.
    fn of(start: &[u8], whole: bool) -> Result<Option<Self>, ReadError> {
        let text = start.trim_ascii_start();
        if text.is_empty() {
            return if whole { Err(ReadError::Empty) } else { Ok(None) };
        }
        if start.starts_with(b"\x1f\x8b") {
            return Err(ReadError::Gzip);
        }
        if is_pickle(start) {
            return Ok(Some(Self::Snapshot));
        }
        if let Some((_, what)) = FOREIGN.iter().find(|(start, _)| text.starts_with(start)) {
            return Err(ReadError::Foreign { what });
        }
        if has_rmm_header(text) {
            return Ok(Some(Self::Rmm));
        }
        Ok(begins_like_a_script(start, whole)?.then_some(Self::Script))
    }
}

/// Reads the traces in a file of any format: one for each device.
///
/// `name` becomes the name of the trace; if there are several, each name includes its device. `limit` bounds the memory
/// for `bytes` and for everything read from them.
pub fn read(name: &str, bytes: &[u8], limit: Bytes) -> Result<Vec<Trace>, ReadError> {
    match Form::of(bytes, true)? {
        Some(Form::Snapshot) => Ok(snapshot::read(name, bytes, limit)?),
        Some(Form::Rmm) => Ok(vec![rmm::read(name, bytes, limit)?]),
        Some(Form::Script) | None => Ok(vec![read_script(name, bytes, limit)?]),
    }
}

impl ReadError {
    /// Returns the memory limit that was too low, if this is the cause of the error.
    pub fn memory_limit(&self) -> Option<MemoryLimit> {
        match *self {
            Self::Rmm(RmmError::Memory(limit))
            | Self::Snapshot(SnapshotError::Memory(limit))
            | Self::Script(ScriptError::Memory(limit)) => Some(limit),
            _ => None,
        }
    }
}

/// Returns whether the bytes begin like a pickled dictionary: with `PROTO` since protocol 2, and before that with the
/// opcodes that create a dictionary.
fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 0..=16, ..] | [b'(', b'd', ..] | [b'}', ..])
}

/// Returns whether the first line has several columns, including a column of an RMM log.
fn has_rmm_header(text: &[u8]) -> bool {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let names = || line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    names().count() > 1 && names().any(|name| matches!(name, b"Action" | b"Pointer"))
}

fn read_script(name: &str, bytes: &[u8], limit: Bytes) -> Result<Trace, ReadError> {
    let text = str::from_utf8(bytes);
    let text = text.map_err(|error| ReadError::Text { offset: error.valid_up_to() })?;
    Ok(script::read(name, text, limit)?)
}

/// Returns whether the first statement is valid; an invalid one means that this is not a script. Without any statement,
/// a `whole` file is a script, and a beginning may become one.
fn begins_like_a_script(bytes: &[u8], whole: bool) -> Result<bool, ReadError> {
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    let mut trimmed = lines.map(|(line, text)| (line, text.trim_ascii()));
    let said = trimmed.find(|(_, text)| !text.is_empty() && !text.starts_with(b"#"));
    let Some((line, text)) = said else { return Ok(whole) };
    let word = text.split(|byte| byte.is_ascii_whitespace() || *byte == b'#').next();
    let word = word.unwrap_or_default();
    let cut_off = !whole && bytes.ends_with(word);
    if cut_off && script::begins_statement(word) {
        return Ok(false);
    }
    if script::is_statement(word) {
        return Ok(true);
    }
    Err(ReadError::Unknown { line, found: excerpt(text) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_told_from_the_first_bytes() {
        let form = Form::of_beginning;
        assert_eq!(form(b"# 1\n\nal"), Ok(None));
        assert_eq!(form(b"# 1\n\nalx "), Err(ReadError::Unknown { line: 3, found: "alx".into() }));
        assert_eq!(form(b"free"), Ok(None));
        assert_eq!(form(b"free "), Ok(Some(Form::Script)));
        assert_eq!(form(b"Time,Action,Poi"), Ok(Some(Form::Rmm)));
        assert_eq!(form(b" "), Ok(None));
        assert_eq!(form(b""), Ok(None));
        for hostile in [&[0; 64][..], b"alloca", b"al\xff\xff", b"free-bytesx"] {
            assert!(matches!(form(hostile), Err(ReadError::Unknown { line: 1, .. })));
        }
    }

    #[test]
    fn a_pickle_is_told_by_its_first_opcodes() {
        let form = Form::of_beginning;
        assert_eq!(
            form(b"\x80\x04\x95\xff\xff\0\0\0\0\0\0}\x94(\x8c\x08seg"),
            Ok(Some(Form::Snapshot))
        );
        let zeros = form(b"\x80\x04\0\0\0\0").unwrap_err().to_string();
        assert_eq!(zeros, "snapshot, byte 2, no opcode: expected an opcode, found 0x00");
        assert!(form(b"}cos\nsystem\n").is_err());
    }

    #[test]
    fn no_form_takes_more_memory_than_the_limit() {
        let log = b"Thread,Time,Action,Pointer,Size,Stream\n1,0:0:0.0,allocate,0x1,1,0\n";
        for bytes in
            [&log[..], b"alloc a 1\n", b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]u."]
        {
            let limit = Bytes::new(bytes.len() as u64 + 10);
            let error = read("test", bytes, limit).unwrap_err();
            assert_eq!(error.memory_limit(), Some(MemoryLimit { limit }), "{error}");
            assert!(error.to_string().contains("more than"), "{error}");
        }
    }

    fn message(bytes: &[u8]) -> String {
        read("test", bytes, Bytes::mib(1)).unwrap_err().to_string()
    }

    #[test]
    fn each_form_is_known_by_its_content() {
        let log = b"Thread,Time,Action,Pointer,Size,Stream\n1,0:0:0.0,allocate,0x1,1,0\n";
        let script = b"# a comment, with Action\n\nalloc a 1\n";
        let snapshot = b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces]](}(\
            X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x08X\x04\0\0\0sizeK\x01\
            X\x06\0\0\0streamK\0ueau.";
        for bytes in [&log[..], script, snapshot] {
            let traces = read("test", bytes, Bytes::mib(1)).unwrap();
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
