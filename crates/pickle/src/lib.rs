//! Plain data in Python's pickle form: read without trust, and written for Python to read.
//!
//! A pickle is a program for a small stack machine, and Python's own reader lets that program call
//! anything. [`read`] builds plain data only (none, booleans, numbers, text, bytes, lists, tuples
//! and dictionaries) and refuses every other opcode by name. It takes time and memory in
//! proportion to its input, and never more memory than its limit, whatever the input says:
//!
//! - Values live in the flat tables of a [`Document`] and refer to each other by number. Sharing
//!   costs nothing, dropping does not recurse, and text is borrowed from the input.
//! - A declared length is compared with what is left before anything is allocated, and every table
//!   is counted against the limit before it grows.
//! - A pickle that takes more than 16 bytes of memory for each byte of its own is refused: honest
//!   ones take about 5, and some opcodes of one byte could take 96.
//! - Values that contain themselves or nest too deeply are refused, so a visitor may recurse. It
//!   has to mind sharing, though: following every reference to a shared value takes exponential
//!   time in a pickle made for that.
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
pub use self::read::read_within;
pub use self::read::{check_beginning, read};
pub use self::write::{DictWriter, ListWriter, Slot, write_dict};

/// How much a pickle may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory for the input and for all that is made of it.
    pub memory: Bytes,
    /// The most containers that may lie within each other.
    pub depth: u16,
}

impl Limits {
    /// Limits for a pickle that may take this much memory.
    pub fn new(memory: Bytes) -> Self {
        Self { memory, ..Self::default() }
    }
}

/// Room for snapshots of a day: 4 GiB. PyTorch nests them 6 deep.
impl Default for Limits {
    fn default() -> Self {
        Self { memory: Bytes::gib(4), depth: 64 }
    }
}

/// A value of a [`Document`], which holds what is longer than a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Python's `None`.
    None,
    /// A boolean.
    Boolean(bool),
    /// An integer of 64 bits with sign.
    Integer(i64),
    /// An integer above that, of 64 bits without sign.
    Large(u64),
    /// A number with a fraction.
    Float(f64),
    /// A string.
    Text(Text),
    /// Bytes that need not be text.
    Bytes(Blob),
    /// A list.
    List(Sequence),
    /// A tuple.
    Tuple(Sequence),
    /// A dictionary.
    Dict(Dict),
}

impl Value {
    /// An integer in the one form that fits it.
    fn unsigned(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Large(number), Self::Integer)
    }

    /// What kind of value this is, with its article.
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

    /// The container that this is, if it is one.
    const fn container(self) -> Option<u32> {
        match self {
            Self::List(Sequence(index))
            | Self::Tuple(Sequence(index))
            | Self::Dict(Dict(index)) => Some(index),
            _ => None,
        }
    }
}

/// A string of a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text(u32);

impl Text {
    /// Its place in a `Vec` with one entry for each of [`Document::texts`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bytes of a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob(u32);

/// A list or tuple of a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(u32);

impl Sequence {
    /// Its place in a `Vec` with one entry for each of [`Document::containers`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A dictionary of a [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dict(u32);

impl Dict {
    /// Its place in a `Vec` with one entry for each of [`Document::containers`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a pickle said: a value and all that it refers to.
///
/// A [`Text`], [`Blob`], [`Sequence`] or [`Dict`] means something only to the document that it came
/// from; another one may answer with something else or panic.
#[derive(Debug)]
pub struct Document<'a> {
    root: Value,
    texts: Vec<Cow<'a, str>>,
    blobs: Vec<&'a [u8]>,
    containers: Vec<Container>,
}

/// The items of a list or tuple, or the keys of a dictionary, each before its value.
#[derive(Debug)]
struct Container {
    items: Vec<Value>,
    /// The byte that it was made at, for errors that show only at the end.
    offset: usize,
}

impl Document<'_> {
    /// The value that was pickled.
    pub fn root(&self) -> Value {
        self.root
    }

    /// How many lists, tuples and dictionaries there are.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// How many strings there are; the same words may be here more than once.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// What a string says.
    pub fn text(&self, text: Text) -> &str {
        &self.texts[text.index()]
    }

    /// What bytes hold.
    pub fn bytes(&self, blob: Blob) -> &[u8] {
        self.blobs[blob.0 as usize]
    }

    /// The items of a list or tuple.
    pub fn items(&self, sequence: Sequence) -> &[Value] {
        &self.containers[sequence.index()].items
    }

    /// The keys and values of a dictionary in the order in which they were set. A key that was set
    /// twice is here twice; the last counts.
    pub fn entries(&self, dict: Dict) -> impl DoubleEndedIterator<Item = (Value, Value)> {
        self.containers[dict.index()].items.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }

    /// What a dictionary holds for a string, found by looking at every key.
    pub fn get(&self, dict: Dict, key: &str) -> Option<Value> {
        let is_key = |value| matches!(value, Value::Text(text) if self.text(text) == key);
        self.entries(dict).rev().find(|(found, _)| is_key(*found)).map(|(_, value)| value)
    }
}
