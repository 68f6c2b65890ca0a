//! Errors in input files.

/// Error at a place in an input file. Correct the file.
///
/// Prints as `file:line: key: problem`; an empty key is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{problem}", prefix(key))]
pub struct InputError {
    /// Name given to the text, or the name of the embedded default.
    pub file: Box<str>,
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1.
    pub column: usize,
    /// Key, as in `hbm.burst_bytes` or `pe.routers[3]`; empty if the problem concerns the whole file.
    pub key: Box<str>,
    /// Problem at this place.
    pub problem: InputProblem,
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// Problem at a place in an input file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputProblem {
    /// A byte is not valid UTF-8.
    #[error("expected UTF-8, found byte {byte:#04x}")]
    NotUtf8 {
        /// Value of the byte.
        byte: u8,
    },
    /// The text is longer than the limit for such files.
    #[error("expected at most {limit} bytes, found more")]
    TooLong {
        /// Largest allowed size, in bytes.
        limit: usize,
    },
    /// Mappings and lists are nested deeper than the limit for such files.
    #[error("expected at most {limit} levels of mappings and lists, found one more")]
    TooDeep {
        /// Largest allowed number of levels.
        limit: usize,
    },
    /// The text is not YAML.
    #[error("expected YAML: {message}")]
    Syntax {
        /// Message of the YAML parser.
        message: String,
    },
    /// The text uses a YAML feature that is not supported here.
    #[error("expected plain YAML, found {found}")]
    Unsupported {
        /// Unsupported feature: an anchor, an alias, a tag, a second document, or a key that is not text.
        found: &'static str,
    },
    /// The key is unknown.
    #[error("expected a known key, found `{found}`; the nearest is `{nearest}`")]
    UnknownKey {
        /// Key that was found.
        found: String,
        /// Most similar key.
        nearest: String,
    },
    /// The key is known, but not used in this combination.
    #[error("expected no such key {when}, where it is not used")]
    UnusedKey {
        /// Condition under which the key is not used.
        when: &'static str,
    },
    /// A required key is missing.
    #[error("expected the key `{name}`, found none")]
    MissingKey {
        /// Name of the key.
        name: &'static str,
    },
    /// The key occurs twice in one mapping.
    #[error("expected the key once, found it in line {first_line}, too")]
    DuplicateKey {
        /// Line of the first occurrence.
        first_line: usize,
    },
    /// The name is not one of the allowed names.
    #[error("expected one of {expected}, found {found}; the nearest is `{nearest}`")]
    UnknownName {
        /// Allowed names, separated by commas.
        expected: Box<str>,
        /// Name that was found.
        found: Box<str>,
        /// Most similar name.
        nearest: Box<str>,
    },
    /// The value has the wrong type or size, or contradicts another value.
    #[error("expected {expected}, found {found}")]
    Value {
        /// Description of the allowed values.
        expected: String,
        /// Value that was found.
        found: String,
    },
}
