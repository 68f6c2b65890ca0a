//! Why a text is not what it should be.

/// Why a text is not what it should be: where, and what is wrong there. All of these are final: correct the file.
///
/// It prints as `file:line: key: problem`, without what does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {}{problem}", prefix(key))]
pub struct InputError {
    /// The name that the text was given, or that of the embedded default.
    pub file: Box<str>,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// As in `hbm.burst_bytes` or `pe.routers[3]`; empty where the problem is the whole file.
    pub key: Box<str>,
    /// What is wrong.
    pub problem: InputProblem,
}

fn prefix(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("{key}: ") }
}

/// What is wrong with a place in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputProblem {
    /// A byte that is no part of a text.
    #[error("expected UTF-8, found byte {byte:#04x}")]
    NotUtf8 {
        /// The byte.
        byte: u8,
    },
    /// More text than any such file needs.
    #[error("expected at most {limit} bytes, found more")]
    TooLong {
        /// How long it may be.
        limit: usize,
    },
    /// Lists in lists, further than any such file needs.
    #[error("expected at most {limit} levels of mappings and lists, found one more")]
    TooDeep {
        /// How many levels there may be.
        limit: usize,
    },
    /// This is not YAML.
    #[error("expected YAML: {message}")]
    Syntax {
        /// What the YAML parser says.
        message: String,
    },
    /// YAML has it, these files do not.
    #[error("expected plain YAML, found {found}")]
    Unsupported {
        /// An anchor, an alias, a tag, a second document or a key that is no text.
        found: &'static str,
    },
    /// Nothing reads this key.
    #[error(
        "expected a key that means something here, found `{found}`; the nearest is `{nearest}`"
    )]
    UnknownKey {
        /// The key.
        found: String,
        /// The most similar one.
        nearest: String,
    },
    /// This key means something, but not together with another.
    #[error("expected no such key {when}, since nothing reads it")]
    UnusedKey {
        /// When it is not read.
        when: &'static str,
    },
    /// A key without which the rest means nothing.
    #[error("expected the key `{name}`, found none")]
    MissingKey {
        /// The key.
        name: &'static str,
    },
    /// The key stands there twice.
    #[error("expected the key once, found it in line {first_line}, too")]
    DuplicateKey {
        /// Where it stands first.
        first_line: usize,
    },
    /// A name that is none of those that can stand here.
    #[error("expected one of {expected}, found {found}; the nearest is `{nearest}`")]
    UnknownName {
        /// All names.
        expected: Box<str>,
        /// What stands there.
        found: Box<str>,
        /// The most similar one.
        nearest: Box<str>,
    },
    /// A node that the machine does not have.
    #[error("expected a node of the machine, found {found}; the nearest is `{nearest}`")]
    UnknownNode {
        /// What stands there.
        found: String,
        /// The most similar one.
        nearest: String,
    },
    /// A value of the wrong type or size, or one that does not go with the others.
    #[error("expected {expected}, found {found}")]
    Value {
        /// What can stand here.
        expected: String,
        /// What stands there.
        found: String,
    },
}
