//! Simulated time: the host's clock and the streams of a device.
//!
//! A stream does its work in order, and is busy up to some time. Operators that PyTorch computes on the CPU take no
//! simulated time. The clock of the host advances when the host waits for a stream.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::{EventId, StreamEvents};

/// Maximum number of streams of a device.
pub const MOST: usize = 1 << 16;
/// The host's clock, in picoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Returns the host's clock, in picoseconds.
pub fn now() -> u64 {
    NOW.load(Ordering::Acquire)
}

/// Advances the host's clock to `time`, unless it is already later.
pub fn wait(time: u64) {
    NOW.fetch_max(time, Ordering::AcqRel);
}

/// The streams of a device. Stream 0 is the default stream.
#[derive(Debug)]
pub struct Streams {
    /// Time up to which each stream is busy, in picoseconds.
    busy: Mutex<Vec<u64>>,
}

impl Default for Streams {
    fn default() -> Self {
        Self { busy: Mutex::new(vec![0]) }
    }
}

impl Streams {
    /// Creates a stream and returns its number; `None` if there are too many.
    pub fn create(&self) -> Option<u32> {
        let mut busy = self.busy();
        let number = u32::try_from(busy.len()).ok().filter(|_| busy.len() < MOST)?;
        busy.push(0);
        Some(number)
    }

    /// Returns the time at which a stream will have finished all its work.
    pub fn end(&self, stream: u32) -> u64 {
        let busy = self.busy();
        let end = usize::try_from(stream).ok().and_then(|stream| busy.get(stream));
        end.copied().unwrap_or(0).max(now())
    }

    /// Returns the time at which all streams will have finished their work.
    pub fn idle(&self) -> u64 {
        self.busy().iter().copied().fold(now(), u64::max)
    }

    /// Adds work that takes `picoseconds` and begins at `from` at the earliest; returns its end.
    pub fn work(&self, stream: u32, from: u64, picoseconds: u64) -> u64 {
        let mut busy = self.busy();
        let Some(end) = usize::try_from(stream).ok().and_then(|stream| busy.get_mut(stream)) else {
            return now();
        };
        *end = (*end).max(from).max(now()).saturating_add(picoseconds);
        *end
    }

    /// Delays later work on a stream until at least `time`.
    pub fn hold(&self, stream: u32, time: u64) {
        let mut busy = self.busy();
        if let Some(end) = usize::try_from(stream).ok().and_then(|stream| busy.get_mut(stream)) {
            *end = (*end).max(time);
        }
    }

    fn busy(&self) -> MutexGuard<'_, Vec<u64>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event is the time at which its stream has passed it.
impl StreamEvents for Streams {
    fn record(&self, stream: u32) -> EventId {
        EventId(self.end(stream))
    }

    fn is_complete(&self, event: EventId) -> bool {
        event.0 <= now()
    }

    fn wait(&self, event: EventId) {
        wait(event.0);
    }
}
