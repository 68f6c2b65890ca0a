//! Scripts: allocation traces as text, with expectations.
//!
//! Each line has one statement; `#` starts a comment. Sizes and offsets are in bytes, or have the unit `KiB`, `MiB` or
//! `GiB`, with or without a space before it.
//!
//! ```text
//! space 1024              # the size of the space
//! granule 128             # sizes are rounded up to this
//! policy first-fit        # the policy that the expected offsets are for
//! alloc a 100 -> 0        # name and size, then what is expected of it
//! alloc b 2 KiB align 256 at 512 high stream 1 kind program -> out of memory
//! free a                  # from here on the name may be used again
//! free a -> error         # a free that has to be refused
//! largest 1 KiB           # the largest free range
//! free-bytes 1024         # all free bytes together
//! ```
//!
//! Options follow the size of an `alloc` in any order, the expectation last. `high` requests the upper end of the
//! space, `at` an exact offset. Comments are not kept.

mod display;
mod parse;

pub(super) use self::parse::{begins_statement, is_statement};

use std::collections::BTreeMap;

use thiserror::Error;

use super::recorder::Recorder;
use super::{Trace, TraceId};
use cubeyard_memory::policy::Kind;
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::excerpt;
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

/// Statements of a script, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The statements as parsed.
    pub statements: Vec<Statement>,
}

/// Statement with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Line of the script, from 1.
    pub line: usize,
    /// Content of the statement.
    pub step: Step,
}

/// Content of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `space`: size of the space to allocate from.
    Space(Bytes),
    /// `granule`: power of two of which sizes and offsets are multiples.
    Granule(Bytes),
    /// `policy`: name of the policy that the expected offsets are for.
    Policy(String),
    /// `alloc`: requests an allocation.
    Allocate(Request),
    /// `free`: frees an allocation.
    Free {
        /// Name of the allocation.
        name: String,
        /// Whether the free must be rejected.
        refused: bool,
    },
    /// `largest`: expected size of the largest free range.
    Largest(Bytes),
    /// `free-bytes`: expected number of free bytes.
    FreeBytes(Bytes),
}

/// Request of an `alloc` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Name of the allocation until it is freed.
    pub name: String,
    /// Requested size, not rounded.
    pub size: Bytes,
    /// Alignment of the offset; a power of two.
    pub align: Option<Bytes>,
    /// Exact offset requested.
    pub at: Option<Bytes>,
    /// Whether the upper end of the space is requested.
    pub high: bool,
    /// Number of the requesting stream.
    pub stream: Option<u32>,
    /// Purpose of the allocation.
    pub kind: Option<Kind>,
    /// Expected outcome, if the script has one.
    pub outcome: Option<Expectation>,
}

impl Request {
    /// Creates a request for `size` bytes called `name`, without options.
    pub fn new(name: impl Into<String>, size: Bytes) -> Self {
        Self {
            name: name.into(),
            size,
            align: None,
            at: None,
            high: false,
            stream: None,
            kind: None,
            outcome: None,
        }
    }
}

/// Expected outcome of an `alloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The allocation succeeds at this offset.
    Offset(Bytes),
    /// The allocation fails for lack of memory.
    OutOfMemory,
}

/// Reason why a script could not be read or converted to a trace. Correct the line and try again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// A word is not valid in its position.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Word {
        /// Line of the script, from 1.
        line: usize,
        /// Description of the valid words.
        expected: &'static str,
        /// Word that was found.
        found: String,
    },
    /// A line ends too early.
    #[error("line {line}: expected {expected}, found the end of the line")]
    Short {
        /// Line of the script, from 1.
        line: usize,
        /// Description of the missing word.
        expected: &'static str,
    },
    /// An option of `alloc` is given twice.
    #[error("line {line}: `{option}` is given twice")]
    Twice {
        /// Line of the script, from 1.
        line: usize,
        /// Name of the option.
        option: &'static str,
    },
    /// An alignment or granule is not a power of two.
    #[error("line {line}: `{word}`: expected a power of two, found {}", size.get())]
    PowerOfTwo {
        /// Line of the script, from 1.
        line: usize,
        /// Statement or option: `align` or `granule`.
        word: &'static str,
        /// Value that was given.
        size: Bytes,
    },
    /// An allocation gets a name that another live allocation has.
    #[error("line {line}: `{name}` is allocated, but has been live since line {since}")]
    AlreadyLive {
        /// Line of the script, from 1.
        line: usize,
        /// Name of the allocation.
        name: String,
        /// Line that allocated the other one.
        since: usize,
    },
    /// A free names no live allocation.
    #[error("line {line}: `{name}` is freed, but is not live")]
    NotLive {
        /// Line of the script, from 1.
        line: usize,
        /// Name that was freed.
        name: String,
    },
    /// There are more allocations than 32 bits can number.
    #[error("line {line}: expected at most 2³² allocations, found more")]
    TooMany {
        /// Line of the script, from 1.
        line: usize,
    },
    /// The text and its trace take more memory than the limit. Raise the limit, or shorten the script.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
}

impl Script {
    /// Parses a script, keeping every statement.
    ///
    /// This takes up to 30 times the memory of the text. [`trace::read`](super::read) keeps no statements and supports
    /// a limit.
    ///
    /// ```
    /// use cubeyard_replay::trace::script::Script;
    /// let script = Script::parse("space 1 KiB # small\nalloc a 100 -> 0\nfree a\n")?;
    /// assert_eq!(script.to_string(), "space 1KiB\nalloc a 100 -> 0\nfree a\n");
    /// assert_eq!(script.to_trace("small")?.events.len(), 2);
    /// # Ok::<(), cubeyard_replay::trace::script::ScriptError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let lines = (1..).zip(text.lines());
        let statements = lines.filter_map(|(line, text)| parse::statement(line, text).transpose());
        Ok(Self { statements: statements.collect::<Result<_, _>>()? })
    }

    /// Converts the script to a trace.
    ///
    /// Expectations are dropped, and so are statements that are expected to have no effect: an `alloc` that must
    /// run out of memory and a `free` that must be rejected. Events are one microsecond apart.
    pub fn to_trace(&self, name: &str) -> Result<Trace, ScriptError> {
        let mut replay = Replay::new(name, Budget::new(Bytes::MAX, 0)?);
        for statement in &self.statements {
            replay.step(statement)?;
        }
        Ok(replay.recorder.finish())
    }
}

/// Reads the text of a script as a trace, line by line. `limit` bounds the memory for both.
pub(super) fn read(name: &str, text: &str, limit: Bytes) -> Result<Trace, ScriptError> {
    let mut replay = Replay::new(name, Budget::new(limit, text.len())?);
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(statement) = parse::statement(line, text)? {
            replay.step(&statement)?;
        }
    }
    Ok(replay.recorder.finish())
}

/// Conversion of a script to a trace, with the live names.
struct Replay {
    recorder: Recorder,
    live: BTreeMap<String, (TraceId, usize)>,
    now_us: u64,
}

impl Replay {
    fn new(name: &str, budget: Budget) -> Self {
        Self { recorder: Recorder::new(name, budget), live: BTreeMap::new(), now_us: 0 }
    }

    fn step(&mut self, Statement { line, step }: &Statement) -> Result<(), ScriptError> {
        match step {
            Step::Allocate(request) => self.allocate(*line, request),
            Step::Free { name, refused: false } => self.free(*line, name),
            _ => Ok(()),
        }
    }

    fn allocate(&mut self, line: usize, request: &Request) -> Result<(), ScriptError> {
        let Request { name, size, .. } = request;
        if request.outcome == Some(Expectation::OutOfMemory) {
            return Ok(());
        }
        if let Some(&(_, since)) = self.live.get(name) {
            return Err(ScriptError::AlreadyLive { line, name: excerpt(name.as_bytes()), since });
        }
        self.recorder.budget.charge(live_entry(name))?;
        let stream = request.stream.unwrap_or(0);
        let id = self.recorder.allocate(*size, stream, self.now_us)?;
        self.live.insert(name.clone(), (id.ok_or(ScriptError::TooMany { line })?, line));
        self.now_us += 1;
        Ok(())
    }

    fn free(&mut self, line: usize, name: &str) -> Result<(), ScriptError> {
        let not_live = || ScriptError::NotLive { line, name: excerpt(name.as_bytes()) };
        let (id, _) = self.live.remove(name).ok_or_else(not_live)?;
        self.recorder.budget.release(live_entry(name));
        self.recorder.free(id, self.now_us)?;
        self.now_us += 1;
        Ok(())
    }
}

/// Returns the memory of a live name, in bytes: its characters, which the heap rounds up to 16, and its entry.
fn live_entry(name: &str) -> usize {
    name.len().next_multiple_of(16) + 16 + map_entry::<String, (TraceId, usize)>()
}

#[cfg(test)]
mod tests;
