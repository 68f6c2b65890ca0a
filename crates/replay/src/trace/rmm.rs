//! The log of RAPIDS RMM's `logging_resource_adaptor`, as comma-separated values.
//!
//! The first line names the columns: `Thread,Time,Action,Pointer,Size,Stream`. They are found by
//! name, so their order is free and further columns are passed over; the thread is not used.
//!
//! - A pointer names an allocation until it is freed, and may then name the next one.
//! - `allocate failure` got nothing, and neither did a request for no bytes that was answered with
//!   a null pointer. Both are passed over, the second together with its free.
//! - Times count from the first event. One that goes backwards counts as equal to its predecessor,
//!   so a log that runs past midnight stands still until the clock has caught up.

mod field;
mod write;

use std::collections::BTreeMap;

use thiserror::Error;

use self::field::{Column, Header, Row};
use super::recorder::{Clock, Recorder, Streams};
use super::{Trace, TraceId};
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{Budget, map_entry};
use cubeyard_units::Bytes;

pub use self::write::write;

/// Why a log of RMM could not be read. None of it is recoverable: correct the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RmmError {
    /// The first line that is not blank, which names the columns, is not there.
    #[error("line 1: expected the names of the columns, found the end of the file")]
    NoHeader,
    /// The header does not name a column that is needed.
    #[error("line {line}: the header has no column `{column}`")]
    NoColumn {
        /// Where the header is.
        line: usize,
        /// Which column is missed.
        column: &'static str,
    },
    /// A line ends before a column that is needed.
    #[error("line {line}: ends before its `{column}`")]
    ShortLine {
        /// Where.
        line: usize,
        /// The column that is missed.
        column: &'static str,
    },
    /// A field does not hold what its column is for.
    #[error("line {line}: expected {expected} as `{column}`, found `{found}`")]
    Field {
        /// Where.
        line: usize,
        /// Whose field.
        column: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The beginning of what is there.
        found: String,
    },
    /// A pointer was allocated while it was live.
    #[error("line {line}: {pointer:#x} is allocated, but is live since line {since}")]
    AlreadyLive {
        /// Where.
        line: usize,
        /// Which pointer.
        pointer: u64,
        /// The line that allocated it.
        since: usize,
    },
    /// A pointer was freed that was not live.
    #[error("line {line}: {pointer:#x} is freed, but is not live")]
    NotLive {
        /// Where.
        line: usize,
        /// Which pointer.
        pointer: u64,
    },
    /// A free names another size than its allocation.
    #[error(
        "line {line}: {pointer:#x} is freed with {} bytes, but line {since} allocated {}",
        freed.get(),
        allocated.get()
    )]
    SizeMismatch {
        /// Where.
        line: usize,
        /// Which pointer.
        pointer: u64,
        /// The size that the free names.
        freed: Bytes,
        /// The size that was allocated.
        allocated: Bytes,
        /// The line that allocated it.
        since: usize,
    },
    /// Some bytes were allocated at the null pointer.
    #[error("line {line}: {} bytes are allocated at the null pointer", size.get())]
    NullPointer {
        /// Where.
        line: usize,
        /// How many bytes.
        size: Bytes,
    },
    /// There are more allocations or streams than 32 bits can number.
    #[error("line {line}: more allocations or streams than 32 bits can number")]
    TooMany {
        /// Where.
        line: usize,
    },
    /// The log and its trace take more memory than the limit. Allow more, or record a shorter part.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
}

/// Reads a whole log as one trace, within `limit` of memory for both.
///
/// ```
/// let log = b"Thread,Time,Action,Pointer,Size,Stream\n\
///     7,15:47:02.841961,allocate,0x7f00,1048576,0\n\
///     7,15:47:02.841977,free,0x7f00,1048576,0\n";
/// let limit = cubeyard_memory::Bytes::mib(1);
/// let trace = cubeyard_replay::trace::rmm::read("tiny", log, limit)?;
/// assert_eq!((trace.allocations, trace.events.len()), (1, 2));
/// # Ok::<(), cubeyard_replay::trace::rmm::RmmError>(())
/// ```
pub fn read(name: &str, log: &[u8], limit: Bytes) -> Result<Trace, RmmError> {
    let mut budget = Budget::new(limit, log.len())?;
    let mut lines = lines(log);
    let (line, text) = lines.next().ok_or(RmmError::NoHeader)?;
    // No more columns than letters; the table of columns grows by doubling.
    budget.charge(2 * text.len())?;
    let header = Header::parse(line, text)?;
    let mut reader = Reader::new(name, budget);
    for (line, text) in lines {
        reader.step(&header.row(line, text))?;
    }
    Ok(reader.recorder.finish())
}

/// Lines that are not blank, with their numbers from 1, without what ends them.
fn lines(log: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = log.split(|&byte| byte == b'\n').zip(1..);
    numbered.map(|(text, line)| (line, text.trim_ascii())).filter(|(_, text)| !text.is_empty())
}

/// What a pointer names while it is live.
#[derive(Clone, Copy, Debug)]
struct Live {
    id: TraceId,
    size: Bytes,
    line: usize,
}

#[derive(Debug)]
struct Reader {
    recorder: Recorder,
    streams: Streams,
    clock: Clock,
    live: BTreeMap<u64, Live>,
}

impl Reader {
    fn new(name: &str, budget: Budget) -> Self {
        Self {
            recorder: Recorder::new(name, budget),
            streams: Streams::default(),
            clock: Clock::default(),
            live: BTreeMap::new(),
        }
    }

    fn step(&mut self, row: &Row<'_>) -> Result<(), RmmError> {
        match row.text(Column::Action)? {
            b"allocate" => self.allocate(row),
            b"free" => self.free(row),
            b"allocate failure" => Ok(()),
            _ => Err(row.wrong(Column::Action, "`allocate`, `allocate failure` or `free`")),
        }
    }

    fn allocate(&mut self, row: &Row<'_>) -> Result<(), RmmError> {
        let (line, pointer, size) = (row.line, row.pointer()?, row.size()?);
        if pointer == 0 {
            return if size.is_zero() { Ok(()) } else { Err(RmmError::NullPointer { line, size }) };
        }
        if let Some(Live { line: since, .. }) = self.live.get(&pointer) {
            return Err(RmmError::AlreadyLive { line, pointer, since: *since });
        }
        let time_us = self.clock.advance(row.time_us()?);
        let budget = &mut self.recorder.budget;
        budget.charge(map_entry::<u64, Live>())?;
        let stream = self.streams.number(row.stream()?, budget)?;
        let stream = stream.ok_or(RmmError::TooMany { line })?;
        let id = self.recorder.allocate(size, stream, time_us)?;
        let id = id.ok_or(RmmError::TooMany { line })?;
        self.live.insert(pointer, Live { id, size, line });
        Ok(())
    }

    fn free(&mut self, row: &Row<'_>) -> Result<(), RmmError> {
        let (line, pointer, freed) = (row.line, row.pointer()?, row.size()?);
        if pointer == 0 && freed.is_zero() {
            return Ok(());
        }
        let Live { id, size: allocated, line: since } =
            self.live.remove(&pointer).ok_or(RmmError::NotLive { line, pointer })?;
        if freed != allocated {
            return Err(RmmError::SizeMismatch { line, pointer, freed, allocated, since });
        }
        self.recorder.budget.release(map_entry::<u64, Live>());
        let time_us = self.clock.advance(row.time_us()?);
        Ok(self.recorder.free(id, time_us)?)
    }
}

#[cfg(test)]
mod tests;
