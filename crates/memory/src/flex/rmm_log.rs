//! Events as a log of RAPIDS RMM's `logging_resource_adaptor`, which `replay` and RMM's own tools read.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

use super::event::Event;
use super::history::Action;
use crate::Bytes;
use crate::sync::{Mutex, lock};

/// One line of an RMM log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmmRow {
    /// Number of the thread.
    pub thread: usize,
    /// Time in microseconds; written as hours, minutes and seconds.
    pub time_us: u64,
    /// `allocate`, `allocate failure` or `free`.
    pub action: &'static str,
    /// Address of the block.
    pub pointer: u64,
    /// Number of bytes requested.
    pub size: Bytes,
    /// Stream of the block.
    pub stream: u32,
}

impl RmmRow {
    /// First line of a log, with the names of the columns.
    pub const HEADER: &'static str = "Thread,Time,Action,Pointer,Size,Stream";
}

impl fmt::Display for RmmRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, time_us, action, pointer, size, stream } = self;
        let (seconds, fraction) = (time_us / 1_000_000, time_us % 1_000_000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{thread},{hours:02}:{minutes:02}:{seconds:02}.{fraction:06},{action},{pointer:#x},{},{stream}",
            size.get()
        )
    }
}

/// A subscriber that writes an RMM log: allocations, frees by the owner, and failed requests. Pointers are flat
/// addresses. A block that compaction moves is freed and allocated again. Blocks from before the subscription do not
/// appear.
///
/// ```
/// # use std::sync::Arc;
/// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}, flex::RmmLog};
/// let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(16)))));
/// let log = Arc::new(RmmLog::new(Vec::new()));
/// let writer = Arc::clone(&log);
/// let subscription = allocator.subscribe(move |event| writer.record(event));
/// drop(allocator.allocate(Bytes::mib(1)));
/// subscription.unsubscribe();
/// let text = String::from_utf8(Arc::into_inner(log).unwrap().finish()?).unwrap();
/// assert_eq!(text.lines().count(), 3, "{text}");
/// assert!(text.ends_with("00:00:00.000002,free,0x400000000,1048576,0\n"), "{text}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RmmLog<W>(Mutex<Output<W>>);

#[derive(Debug)]
struct Output<W> {
    sink: W,
    /// Pointers that are allocated in the log.
    live: BTreeSet<u64>,
    /// First error; nothing is written after it.
    state: io::Result<()>,
}

impl<W: Write> RmmLog<W> {
    /// Creates a log and writes its header.
    pub fn new(mut sink: W) -> Self {
        let state = writeln!(sink, "{}", RmmRow::HEADER);
        Self(Mutex::new(Output { sink, live: BTreeSet::new(), state }))
    }

    /// Writes an event, if the log has a line for it.
    pub fn record(&self, event: &Event) {
        lock(&self.0).record(event);
    }

    /// Flushes the log. Fails with the first error of writing.
    pub fn flush(&self) -> io::Result<()> {
        let mut output = lock(&self.0);
        std::mem::replace(&mut output.state, Ok(()))?;
        output.sink.flush()
    }

    /// Ends the log, and returns its sink. Fails with the first error of writing.
    pub fn finish(self) -> io::Result<W> {
        self.flush()?;
        Ok(self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).sink)
    }
}

impl<W: Write> Output<W> {
    fn record(&mut self, event: &Event) {
        match event.action {
            Action::Alloc => self.allocate(event, event.flat),
            Action::FreeRequested => {
                self.free(event);
            }
            Action::Move => self.relocate(event),
            Action::OutOfMemory => self.write("allocate failure", 0, event),
            _ => {}
        }
    }

    fn allocate(&mut self, event: &Event, pointer: u64) {
        self.live.insert(pointer);
        self.write("allocate", pointer, event);
    }

    fn relocate(&mut self, event: &Event) {
        if self.free(event) {
            self.allocate(event, event.target_flat);
        }
    }

    /// Returns whether the log has the block.
    fn free(&mut self, event: &Event) -> bool {
        let known = self.live.remove(&event.flat);
        if known {
            self.write("free", event.flat, event);
        }
        known
    }

    fn write(&mut self, action: &'static str, pointer: u64, event: &Event) {
        let Event { thread, time_us, requested: size, stream, .. } = *event;
        let row = RmmRow { thread, time_us, action, pointer, size, stream };
        if self.state.is_ok() {
            self.state = writeln!(self.sink, "{row}");
        }
    }
}
