//! Scripts: allocation traces that people write and read, with what they expect.
//!
//! One statement a line; `#` starts a comment. Sizes and offsets are bytes, or carry `KiB`, `MiB`
//! or `GiB`, set off or not.
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
//! What follows the size of an `alloc` may come in any order, the expectation last. `high` asks for
//! the upper end of the space, `at` for one offset. Only the statements are kept: writing a script
//! that was read drops its comments.

mod display;
mod parse;

pub(super) use self::parse::{begins_statement, is_statement};

use std::collections::BTreeMap;

use thiserror::Error;

use super::recorder::Recorder;
use super::{Trace, TraceId};
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::excerpt;
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

/// What a script says, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The statements, none of them carried out yet.
    pub statements: Vec<Statement>,
}

/// A statement and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its line, from 1.
    pub line: usize,
    /// What it says.
    pub step: Step,
}

/// What one statement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `space`: the space that is allocated from has this size.
    Space(Bytes),
    /// `granule`: sizes and offsets are multiples of this power of two.
    Granule(Bytes),
    /// `policy`: expected offsets are those of the policy of this name.
    Policy(String),
    /// `alloc`: allocate.
    Allocate(Request),
    /// `free`: give back.
    Free {
        /// What the allocation was called.
        name: String,
        /// Whether the free has to be refused.
        refused: bool,
    },
    /// `largest`: the largest free range has to be this large.
    Largest(Bytes),
    /// `free-bytes`: so many bytes have to be free in all.
    FreeBytes(Bytes),
}

/// What an `alloc` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to call it until it is freed.
    pub name: String,
    /// The bytes asked for, not rounded.
    pub size: Bytes,
    /// A power of two that the offset has to be a multiple of.
    pub align: Option<Bytes>,
    /// The only offset that will do.
    pub at: Option<Bytes>,
    /// Whether it belongs at the upper end of the space.
    pub high: bool,
    /// The stream that it is for.
    pub stream: Option<u32>,
    /// What it is for.
    pub kind: Option<Kind>,
    /// What has to come of it, where the script says so.
    pub outcome: Option<Outcome>,
}

impl Request {
    /// A request for `size` bytes called `name`, with nothing else said.
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

/// What an allocation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data of the model.
    Tensor,
    /// Code for the device.
    Program,
    /// A buffer for copies between host and device.
    Staging,
}

/// What is expected of an `alloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeds, at this offset.
    Offset(Bytes),
    /// It fails for want of memory.
    OutOfMemory,
}

/// Why a script could not be read or turned into a trace. Correct the line and try again.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// A word is not what can stand in its place.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Word {
        /// Where.
        line: usize,
        /// What can stand there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// A line ends too early.
    #[error("line {line}: expected {expected}, found the end of the line")]
    Short {
        /// Where.
        line: usize,
        /// What is missed.
        expected: &'static str,
    },
    /// An option of `alloc` is given twice.
    #[error("line {line}: `{option}` is given twice")]
    Twice {
        /// Where.
        line: usize,
        /// Which option.
        option: &'static str,
    },
    /// An alignment or granule is no power of two.
    #[error("line {line}: `{word}` has to be a power of two, but is {}", size.get())]
    PowerOfTwo {
        /// Where.
        line: usize,
        /// `align` or `granule`.
        word: &'static str,
        /// What it is.
        size: Bytes,
    },
    /// A name is given to an allocation while it names another one.
    #[error("line {line}: `{name}` is allocated, but is live since line {since}")]
    AlreadyLive {
        /// Where.
        line: usize,
        /// Which name.
        name: String,
        /// The line that allocated it.
        since: usize,
    },
    /// A free names nothing that is live.
    #[error("line {line}: `{name}` is freed, but is not live")]
    NotLive {
        /// Where.
        line: usize,
        /// Which name.
        name: String,
    },
    /// There are more allocations than 32 bits can number.
    #[error("line {line}: more allocations than 32 bits can number")]
    TooMany {
        /// Where.
        line: usize,
    },
    /// The text and its trace take more memory than the limit. Allow more, or shorten the script.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
}

impl Script {
    /// Reads the text of a script, with every statement of it.
    ///
    /// That takes up to 30 times the memory of the text. [`trace::read`](super::read), for files of
    /// others, keeps no statements and has a limit.
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

    /// The allocations and frees, for a replay.
    ///
    /// Expectations are dropped, and so is what they say will come to nothing: an `alloc` that has
    /// to run out of memory and a `free` that has to be refused. A script has no clock, so each
    /// event is taken to be one microsecond after its predecessor.
    pub fn to_trace(&self, name: &str) -> Result<Trace, ScriptError> {
        let mut replay = Replay::new(name, Budget::new(Bytes::MAX, 0)?);
        for statement in &self.statements {
            replay.step(statement)?;
        }
        Ok(replay.recorder.finish())
    }
}

/// Reads the text of a script as a trace, line by line, within `limit` of memory for both.
pub(super) fn read(name: &str, text: &str, limit: Bytes) -> Result<Trace, ScriptError> {
    let mut replay = Replay::new(name, Budget::new(limit, text.len())?);
    for (line, text) in (1..).zip(text.lines()) {
        if let Some(statement) = parse::statement(line, text)? {
            replay.step(&statement)?;
        }
    }
    Ok(replay.recorder.finish())
}

/// Which names are live, while a script becomes a trace.
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
        if request.outcome == Some(Outcome::OutOfMemory) {
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

/// Memory that a live name takes: its letters, which the heap rounds up to 16, and its entry.
fn live_entry(name: &str) -> usize {
    name.len().next_multiple_of(16) + 16 + map_entry::<String, (TraceId, usize)>()
}

#[cfg(test)]
mod tests;
