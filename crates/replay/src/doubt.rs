//! Whether a recording can carry advice: it is whole, and the model of PyTorch reproduces it.

use std::fmt;

use super::pytorch::PyTorch;
use super::{Report, Target, run};
use crate::trace::{HistoryExtent, RecordedBy, Recording, Trace};
use cubeyard_units::Bytes;

/// The most by which the model may miss what PyTorch recorded.
const TOLERANCE: f64 = 0.01;

/// Why a recording gives no advice. Its text ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The snapshot has no history.
    NoHistory,
    /// Its history begins in the middle.
    Begun {
        /// Bytes of the blocks that were live by then.
        live: Bytes,
        /// Bytes that were reserved by then.
        reserved: Bytes,
    },
    /// History and segments contradict each other.
    Contradiction,
    /// The model of PyTorch does not come to what PyTorch recorded.
    NotReproduced {
        /// What the model reserves.
        modelled: Bytes,
        /// What was reserved.
        recorded: Bytes,
        /// Settings that the model does not follow.
        settings: Vec<&'static str>,
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
            Self::NotReproduced { modelled, recorded, settings } => {
                write!(
                    f,
                    "the model of PyTorch reserves {modelled} for it where PyTorch reserved {recorded}, so \
                     it misses something that mattered"
                )?;
                if !settings.is_empty() {
                    write!(f, " (it does not follow {})", settings.join(", "))?;
                }
                f.write_str("; compare the policies with each other only")
            }
        }
    }
}

impl Report {
    /// Why the figures here give no advice, if they do not.
    pub fn doubt(&self) -> Option<Doubt> {
        let Recording { by, reserved, history, other_settings, .. } = self.recording.as_ref()?;
        match *history {
            HistoryExtent::Missing => return Some(Doubt::NoHistory),
            HistoryExtent::Begun { live, reserved } => {
                return Some(Doubt::Begun { live, reserved });
            }
            HistoryExtent::Whole => {}
        }
        let Some(recorded) = *reserved else { return Some(Doubt::Contradiction) };
        let modelled = self.modelled.filter(|_| *by == RecordedBy::PyTorch)?;
        let missed = modelled.get().abs_diff(recorded.get()) as f64;
        let settings = other_settings.clone();
        let reproduced = missed <= TOLERANCE * recorded.get() as f64;
        (!reproduced).then_some(Doubt::NotReproduced { modelled, recorded, settings })
    }
}

/// What the model of PyTorch, with the recorded settings, reserves for a trace that is a whole recording of
/// it.
pub(super) fn modelled(trace: &Trace) -> Option<Bytes> {
    let recording = trace.recording.as_ref()?;
    if recording.by != RecordedBy::PyTorch || recording.history != HistoryExtent::Whole {
        return None;
    }
    // Where a request failed, PyTorch has given back its cache before. Others may have freed memory since.
    let capacity = recording.out_of_memory.first().and_then(|failure| failure.capacity);
    let capacity = capacity.max(capacity.and(recording.reserved));
    let make = if recording.expandable { PyTorch::expandable } else { PyTorch::native };
    let mut model = make(capacity);
    Some(run(trace, &mut model as &mut dyn Target, &mut |_| {}).peak_reserved)
}
