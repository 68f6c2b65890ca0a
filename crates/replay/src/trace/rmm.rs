//! Logs of RAPIDS RMM's `logging_resource_adaptor`, as comma-separated values.
//!
//! The first line names the columns: `Thread,Time,Action,Pointer,Size,Stream`. They are found by name, in any
//! order; further columns and the thread are ignored.
//!
//! - A pointer identifies an allocation until it is freed, and may then be reused.
//! - `allocate failure` is ignored, and so is a request for zero bytes answered with a null pointer, together with its
//!   free.
//! - Times are relative to the first event. A time before its predecessor is replaced by the predecessor's. So after
//!   midnight, time does not advance until the clock of the log has caught up.

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

/// Reason why an RMM log could not be read. Correct the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RmmError {
    /// The header, the first line that is not blank, is missing.
    #[error("line 1: expected the names of the columns, found the end of the file")]
    NoHeader,
    /// The header lacks a required column.
    #[error("line {line}: the header has no column `{column}`")]
    NoColumn {
        /// Line of the header.
        line: usize,
        /// Name of the missing column.
        column: &'static str,
    },
    /// A line ends before a required column.
    #[error("line {line}: expected a value of `{column}`, found the end of the line")]
    ShortLine {
        /// Line of the file, from 1.
        line: usize,
        /// Name of the missing column.
        column: &'static str,
    },
    /// A field does not have the format of its column.
    #[error("line {line}: expected {expected} as `{column}`, found `{found}`")]
    Field {
        /// Line of the file, from 1.
        line: usize,
        /// Name of the column.
        column: &'static str,
        /// Expected format of the field.
        expected: &'static str,
        /// Beginning of the field.
        found: String,
    },
    /// A pointer was allocated while it was already live.
    #[error("line {line}: {pointer:#x} is allocated, but has been live since line {since}")]
    AlreadyLive {
        /// Line of the file, from 1.
        line: usize,
        /// Address of the allocation.
        pointer: u64,
        /// Line that allocated the pointer.
        since: usize,
    },
    /// A pointer was freed that was not live.
    #[error("line {line}: {pointer:#x} is freed, but is not live")]
    NotLive {
        /// Line of the file, from 1.
        line: usize,
        /// Address that was freed.
        pointer: u64,
    },
    /// A free and its allocation differ in size.
    #[error(
        "line {line}: {pointer:#x} is freed with {} bytes, but line {since} allocated {}",
        freed.get(),
        allocated.get()
    )]
    SizeMismatch {
        /// Line of the file, from 1.
        line: usize,
        /// Address that was freed.
        pointer: u64,
        /// Size according to the free.
        freed: Bytes,
        /// Size according to the allocation.
        allocated: Bytes,
        /// Line that allocated the pointer.
        since: usize,
    },
    /// A nonzero size was allocated at the null pointer.
    #[error("line {line}: expected an address for {} bytes, found the null pointer", size.get())]
    NullPointer {
        /// Line of the file, from 1.
        line: usize,
        /// Size of the allocation.
        size: Bytes,
    },
    /// There are more allocations or streams than 32 bits can number.
    #[error("line {line}: expected at most 2³² allocations and streams, found more")]
    TooMany {
        /// Line of the file, from 1.
        line: usize,
    },
    /// The log and its trace take more memory than the limit. Raise the limit, or record a shorter part.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
}

/// Reads a whole log as one trace. `limit` bounds the memory for both.
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
    // There are at most as many columns as characters; the table of columns grows by doubling.
    budget.charge(2 * text.len())?;
    let header = Header::parse(line, text)?;
    let mut reader = Reader::new(name, budget);
    for (line, text) in lines {
        reader.step(&header.row(line, text))?;
    }
    Ok(reader.recorder.finish())
}

/// Returns the lines that are not blank, with their numbers from 1, without line ends.
fn lines(log: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = log.split(|&byte| byte == b'\n').zip(1..);
    numbered.map(|(text, line)| (line, text.trim_ascii())).filter(|(_, text)| !text.is_empty())
}

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
