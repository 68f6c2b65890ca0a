//! Simulated time: the host's clock and the streams of a device.
//!
//! A stream does its work in order, and is busy up to some time. The clock of the host advances when the host waits for
//! a stream, and when it submits a launch.
//!
//! A launch begins when its stream has finished its earlier work, the host has submitted it, and its PEs are free. It
//! keeps its stream and its PEs busy until its end. A copy takes PCIe links instead of PEs. In a
//! [trial], times are a thread's own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::{EventId, StreamEvents};

use crate::pes::{Claim, Pe, Taken};
use crate::trial::{self, Part};

/// Maximum number of streams of a device.
pub const MOST: usize = 1 << 16;
/// The host's clock, in picoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);

/// Returns the host's clock, in picoseconds.
pub fn now() -> u64 {
    real_now().max(trial::time(Part::Host))
}

/// Advances the host's clock to `time`, unless it is already later.
pub fn wait(time: u64) {
    if !trial::raise(Part::Host, time) {
        NOW.fetch_max(time, Ordering::AcqRel);
    }
}

/// Returns the host's clock without regard to a trial.
fn real_now() -> u64 {
    NOW.load(Ordering::Acquire)
}

/// Adds work of the host that takes `picoseconds`; returns its end.
pub(crate) fn submit(picoseconds: u64) -> u64 {
    let end = |start: u64| start.saturating_add(picoseconds);
    if trial::raise(Part::Host, end(now())) {
        return now();
    }
    end(NOW
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(end(now)))
        .unwrap_or_else(|now| now))
}

/// Time of a launch, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin of the launch.
    pub begin: u64,
    /// End of the launch.
    pub end: u64,
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
        self.busy_until(stream).unwrap_or(0).max(now())
    }

    /// Returns the time at which all streams will have finished their work.
    pub fn idle(&self) -> u64 {
        self.busy().iter().copied().fold(now(), u64::max).max(trial::latest(self.key()))
    }

    /// Adds work that takes `picoseconds` and begins at `from` at the earliest; returns its end.
    pub fn work(&self, stream: u32, from: u64, picoseconds: u64) -> u64 {
        self.add(stream, from, picoseconds).map_or_else(now, |span| span.end)
    }

    /// Adds a launch that takes `picoseconds` on PEs, after the host has spent `host` picoseconds on it. Returns `None`,
    /// and adds nothing, if there is no such stream.
    pub fn launch(&self, stream: u32, pes: &[Pe], host: u64, picoseconds: u64) -> Option<Span> {
        self.launch_on(stream, Claim::Pes(pes), host, picoseconds)
    }

    /// Adds a launch on all PEs of a SIP, in the same way.
    pub fn launch_on_sip(
        &self,
        stream: u32,
        sip: u32,
        host: u64,
        picoseconds: u64,
    ) -> Option<Span> {
        self.launch_on(stream, Claim::Sip(sip), host, picoseconds)
    }

    /// Adds work that takes parts of the machine, in the same way.
    pub(crate) fn launch_on(
        &self,
        stream: u32,
        claim: Claim<'_>,
        host: u64,
        picoseconds: u64,
    ) -> Option<Span> {
        self.busy_until(stream)?;
        let submitted = submit(host);
        let taken = Taken::new(claim);
        let span = self.add(stream, submitted.max(taken.free()), picoseconds)?;
        taken.keep(span.end);
        Some(span)
    }

    /// Delays later work on a stream until at least `time`.
    pub fn hold(&self, stream: u32, time: u64) {
        self.raise(&mut self.busy(), stream, time);
    }

    /// Returns the time at which a stream will have finished all its work, without regard to a trial.
    pub fn real_end(&self, stream: u32) -> u64 {
        let index = usize::try_from(stream).unwrap_or(usize::MAX);
        self.busy().get(index).copied().unwrap_or(0).max(real_now())
    }

    fn add(&self, stream: u32, from: u64, picoseconds: u64) -> Option<Span> {
        let mut busy = self.busy();
        let begin = self.time(&busy, stream)?.max(from).max(now());
        let end = begin.saturating_add(picoseconds);
        self.raise(&mut busy, stream, end);
        Some(Span { begin, end })
    }

    /// Returns the time up to which a stream is busy; `None` if there is no such stream.
    fn busy_until(&self, stream: u32) -> Option<u64> {
        self.time(&self.busy(), stream)
    }

    fn time(&self, busy: &[u64], stream: u32) -> Option<u64> {
        let time = busy.get(usize::try_from(stream).ok()?)?;
        Some(trial::time(Part::Stream(self.key(), stream)).max(*time))
    }

    fn raise(&self, busy: &mut [u64], stream: u32, time: u64) {
        let end = usize::try_from(stream).ok().and_then(|stream| busy.get_mut(stream));
        if let Some(end) = end
            && !trial::raise(Part::Stream(self.key(), stream), time)
        {
            *end = time.max(*end);
        }
    }

    /// Returns a number that other devices' streams do not have.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn busy(&self) -> MutexGuard<'_, Vec<u64>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event is the time at which its stream has passed it. A block outlives a trial, so the allocator uses the times
/// of the process.
impl StreamEvents for Streams {
    fn record(&self, stream: u32) -> EventId {
        EventId(self.real_end(stream))
    }

    fn is_complete(&self, event: EventId) -> bool {
        event.0 <= real_now()
    }

    fn wait(&self, event: EventId) {
        NOW.fetch_max(event.0, Ordering::AcqRel);
    }
}
