//! Suitability of a recording for advice: it must be complete, and the model of PyTorch must reproduce it.

use std::fmt;

use super::pytorch::PyTorch;
use super::run;
use crate::trace::{EmptiedCache, HistoryExtent, RecordedBy, Recording, Trace};
use cubeyard_units::Bytes;

/// Maximum relative deviation of the model from the bytes that PyTorch recorded.
const TOLERANCE: f64 = 0.01;

/// Reason why a recording gives no advice. Its text ends with a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The snapshot has no history.
    NoHistory,
    /// The beginning of the history is missing.
    Begun {
        /// Live bytes at the start of the history.
        live: Bytes,
        /// Reserved bytes at the start of the history.
        reserved: Bytes,
    },
    /// History and segments contradict each other.
    Contradiction,
    /// The model of PyTorch does not reproduce the recorded bytes.
    NotReproduced {
        /// Bytes that the model reserves.
        modelled: Bytes,
        /// Bytes that PyTorch reserved, as recorded.
        recorded: Bytes,
        /// Settings that the model does not support.
        settings: Vec<&'static str>,
        /// Calls of `empty_cache()`, which the model does not repeat.
        emptied: EmptiedCache,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHistory => f.write_str(
                "it has no history, only what was live when it was taken; call \
                 torch.cuda.memory._record_memory_history() before the work",
            ),
            Self::Begun { live, reserved } => write!(
                f,
                "its history begins with {live} live and {reserved} reserved, and what led to that is \
                 lost; record from the start, with a larger max_entries"
            ),
            Self::Contradiction => f.write_str(
                "its history and its segments contradict each other; take the snapshot while nothing \
                 allocates",
            ),
            Self::NotReproduced { modelled, recorded, settings, emptied } => {
                write!(
                    f,
                    "the model of PyTorch reserves {modelled} for it where PyTorch reserved {recorded}, so \
                     it misses something that mattered"
                )?;
                let calls = (emptied.calls > 0).then_some("calls of empty_cache()");
                let missed: Vec<_> = settings.iter().copied().chain(calls).collect();
                if !missed.is_empty() {
                    write!(f, " (it does not follow {})", missed.join(", "))?;
                }
                f.write_str("; compare the policies with each other only")
            }
        }
    }
}

/// Returns the doubt about a recording, given the bytes that the model of PyTorch reserves for its trace.
pub(super) fn doubt(recording: &Recording, modelled: Option<Bytes>) -> Option<Doubt> {
    match recording.history {
        HistoryExtent::Missing => return Some(Doubt::NoHistory),
        HistoryExtent::Begun { live, reserved } => return Some(Doubt::Begun { live, reserved }),
        HistoryExtent::Whole => {}
    }
    let Some(recorded) = recording.reserved else { return Some(Doubt::Contradiction) };
    let modelled = modelled.filter(|_| recording.by == RecordedBy::PyTorch)?;
    let missed = modelled.get().abs_diff(recorded.get()) as f64;
    let settings = recording.other_settings.clone();
    let reproduced = missed <= TOLERANCE * recorded.get() as f64;
    let emptied = recording.emptied_cache;
    (!reproduced).then_some(Doubt::NotReproduced { modelled, recorded, settings, emptied })
}

/// Returns the bytes that the model of PyTorch, with the recorded settings, reserves for a trace; `None` unless the
/// trace is a complete recording of PyTorch.
pub(super) fn modelled(trace: &Trace) -> Option<Bytes> {
    let recording = trace.recording.as_ref()?;
    if recording.by != RecordedBy::PyTorch || recording.history != HistoryExtent::Whole {
        return None;
    }
    let make = if recording.expandable { PyTorch::expandable } else { PyTorch::native };
    let mut model = make(capacity(recording)).of(trace);
    Some(run(trace, &mut model, &mut |_| {}).peak_reserved)
}

/// Returns the memory that was available to a recorded allocator, if a request failed. PyTorch releases its cache
/// before it fails. Other processes may have freed memory since.
pub(super) fn capacity(recording: &Recording) -> Option<Bytes> {
    let capacity = recording.out_of_memory.first().and_then(|failure| failure.capacity);
    capacity.max(capacity.and(recording.reserved))
}
