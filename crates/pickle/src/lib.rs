//! Reader and writer of plain data in Python's pickle format; the reader trusts no input.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A pickle is a program for a small stack machine, and Python's own reader lets that program call any function.
//! [`read`] builds plain data only (`None`, booleans, numbers, text, bytes, lists, tuples and dictionaries) and rejects
//! every other opcode by name. Its time and memory are proportional to its input, and its memory never exceeds the
//! limit:
//!
//! - Values live in the flat tables of a [`Document`] and refer to each other by index. Sharing costs nothing, dropping
//!   does not recurse, and text is borrowed from the input.
//! - A declared length is compared with the remaining input before anything is allocated, and every table is charged to
//!   the limit before it grows.
//! - A pickle that needs more than 16 bytes of memory per byte of input is rejected. Pickles written by Python need
//!   about 5; some one-byte opcodes could need 96.
//! - Values that contain themselves or nest too deeply are rejected, so a visitor may recurse. Following every
//!   reference to a shared value can take exponential time, however.
//!
//! ```
//! use cubeyard_pickle::{self as pickle, Limits, Value};
//!
//! let mut bytes = Vec::new();
//! pickle::write_dict(&mut bytes, |root| root.entry("sizes").list(|sizes| sizes.item().integer(512)))?;
//! let document = pickle::read(&bytes, &Limits::default())?;
//! let Value::Dict(root) = document.root() else { panic!("a dictionary was written") };
//! let Some(Value::List(sizes)) = document.get(root, "sizes") else { panic!("with a list") };
//! assert_eq!(document.items(sizes), [Value::Integer(512)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acyclic;
mod budget;
mod error;
mod excerpt;
mod literal;
mod opcode;
mod read;
mod source;
mod write;

use std::borrow::Cow;

use cubeyard_units::Bytes;

pub use self::budget::{Budget, MemoryLimit, map_entry};
pub use self::error::{PickleError, Problem};
pub use self::excerpt::excerpt;
pub use self::read::{check_beginning, read, read_within};
pub use self::write::{DictWriter, ListWriter, Slot, write_dict};

/// Limits on the resources that a pickle may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory for the input and everything read from it.
    pub memory: Bytes,
    /// Maximum nesting depth of containers.
    pub depth: u16,
}

/// 4 GiB of memory, enough for snapshots of a whole day, and a nesting depth of 64; PyTorch's snapshots have a depth of
/// 6.
impl Default for Limits {
    fn default() -> Self {
        Self { memory: Bytes::gib(4), depth: 64 }
    }
}

/// A value of a [`Document`]. The document stores everything longer than a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The Python value `None`.
    None,
    /// A truth value.
    Boolean(bool),
    /// A signed integer of 64 bits.
    Integer(i64),
    /// An unsigned integer above the signed range.
    Large(u64),
    /// A floating-point number.
    Float(f64),
    /// A Unicode string.
    Text(Text),
    /// A byte string.
    Bytes(Blob),
    /// A Python list.
    List(Sequence),
    /// A Python tuple.
    Tuple(Sequence),
    /// A Python dictionary.
    Dict(Dict),
}

impl Value {
    /// Creates an integer in the variant that represents it.
    fn unsigned(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Large(number), Self::Integer)
    }

    /// Returns the kind of value with its article, e.g. `a list`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Boolean(_) => "a boolean",
            Self::Integer(_) | Self::Large(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Tuple(_) => "a tuple",
            Self::Dict(_) => "a dictionary",
        }
    }

    /// Returns the index of the container that this value refers to, if any.
    const fn container(self) -> Option<u32> {
        match self {
            Self::List(Sequence(index))
            | Self::Tuple(Sequence(index))
            | Self::Dict(Dict(index)) => Some(index),
            _ => None,
        }
    }
}

/// Handle of a string in a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(u32);

impl Text {
    /// Returns the handle's index in a `Vec` with one entry for each of [`Document::texts`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Handle of a byte string in a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob(u32);

/// Handle of a list or tuple in a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(u32);

impl Sequence {
    /// Returns the handle's index in a `Vec` with one entry for each of [`Document::containers`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Handle of a dictionary in a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dict(u32);

impl Dict {
    /// Returns the handle's index in a `Vec` with one entry for each of [`Document::containers`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Contents of a pickle: a value and everything that it refers to.
///
/// A [`Text`], [`Blob`], [`Sequence`] or [`Dict`] is valid only for the document that it came from; another
/// document may return something else or panic.
#[derive(Debug)]
pub struct Document<'a> {
    root: Value,
    texts: Vec<Cow<'a, str>>,
    blobs: Vec<&'a [u8]>,
    containers: Vec<Container>,
}

/// Items of a list or tuple, or keys of a dictionary, each followed by its value.
#[derive(Debug)]
struct Container {
    items: Vec<Value>,
    /// Offset of the opcode that created the container, for errors found at the end.
    offset: usize,
}

impl Document<'_> {
    /// Returns the pickled value.
    pub fn root(&self) -> Value {
        self.root
    }

    /// Returns the number of lists, tuples and dictionaries.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// Returns the number of strings; some of them may be equal.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns the contents of a string.
    pub fn text(&self, text: Text) -> &str {
        &self.texts[text.index()]
    }

    /// Returns the contents of a byte string.
    pub fn bytes(&self, blob: Blob) -> &[u8] {
        self.blobs[blob.0 as usize]
    }

    /// Returns the items of a list or tuple.
    pub fn items(&self, sequence: Sequence) -> &[Value] {
        &self.containers[sequence.index()].items
    }

    /// Returns the keys and values of a dictionary in the order in which they were set. A key set twice occurs
    /// twice; the last value counts.
    pub fn entries(&self, dict: Dict) -> impl DoubleEndedIterator<Item = (Value, Value)> {
        self.containers[dict.index()].items.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// Returns the value of a string key, searching all keys.
    pub fn get(&self, dict: Dict, key: &str) -> Option<Value> {
        let is_key = |value| matches!(value, Value::Text(text) if self.text(text) == key);
        self.entries(dict).rev().find(|(found, _)| is_key(*found)).map(|(_, value)| value)
    }
}
