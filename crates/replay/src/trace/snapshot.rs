//! PyTorch's memory snapshots, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! A snapshot is a pickled dictionary. `device_traces` has a list for each device of what its
//! allocator did, and `segments` says what it held in the end. From both comes a [`Trace`] for each
//! device, with sizes as they were asked for:
//!
//! - A free has two phases. The program lets go with `free_requested`, but while another stream
//!   still uses the memory it is not there to be used again. So the trace frees at
//!   `free_completed`, or at `free_requested` where PyTorch was told not to record the other.
//!   A block whose free was not completed when the snapshot was taken stays live.
//! - The history is a ring: its oldest entries may be lost. What is freed without having been
//!   allocated was live at its start, and so was a block that is live in the end without an entry.
//!   Those are allocated at time zero, in the order of their addresses.
//! - Call sites are numbered from 1 by what their frames say (file, line and function). A block
//!   that was live at the start and freed has 0: only the frames of its free are known.
//! - The recorded peak is found by walking back from the segments that are there in the end. It
//!   covers the history that is left, and is not known where history and segments contradict each
//!   other (they are not taken at the same moment).
//! - A history is whole if nothing was reserved when it began. [`Recording`](super::Recording) says so,
//!   with the settings and the requests that failed.
//!
//! The same entry may not occur twice. PyTorch makes a dictionary for each, and small files that
//! repeat one would otherwise be traces of any length.

mod cursor;
mod history;
mod reserved;
mod segments;
mod settings;
mod sites;

use thiserror::Error;

use self::cursor::Cursor;
use self::history::History;
use self::segments::Segments;
use self::settings::Settings;
use self::sites::Sites;
use super::Trace;
use cubeyard_pickle::Budget;
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{self as pickle, Limits, PickleError, Problem};
use cubeyard_units::Bytes;

/// Why a snapshot could not be read. None of it is recoverable but a limit that was too low.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// It is no pickle of plain data.
    #[error(transparent)]
    Pickle(PickleError),
    /// The file and what is made of it take more memory than the limit. Allow more, or record a
    /// shorter part.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
    /// A part of it is not what it has to be.
    #[error("{part}: expected {expected}, found {found}")]
    Part {
        /// Which part, as one would write it in Python.
        part: String,
        /// What it has to be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// An entry stands in a second place.
    #[error("{part}: expected an entry of its own, found one that occurred before")]
    Repeated {
        /// The second place.
        part: String,
    },
    /// An address is allocated while it is live.
    #[error("{part}: {address:#x} is allocated, but is live")]
    AlreadyLive {
        /// The entry.
        part: String,
        /// Which address.
        address: u64,
    },
    /// An address is freed that is not live.
    #[error("{part}: {address:#x} is freed, but is not live")]
    NotLive {
        /// The entry.
        part: String,
        /// Which address.
        address: u64,
    },
    /// There are more allocations, streams or call sites than 32 bits can number.
    #[error("more allocations, streams or call sites than 32 bits can number")]
    TooMany,
}

impl From<PickleError> for SnapshotError {
    fn from(error: PickleError) -> Self {
        match error.problem {
            Problem::Memory(limit) => Self::Memory(limit),
            _ => Self::Pickle(error),
        }
    }
}

/// Reads a snapshot: a trace for each device on which anything was allocated, in their order.
///
/// A snapshot that was taken of nothing gives no trace at all. `limit` is on the memory for the
/// file and for all that is made of it.
pub fn read(name: &str, bytes: &[u8], limit: Bytes) -> Result<Vec<Trace>, SnapshotError> {
    let budget = &mut Budget::new(limit, bytes.len())?;
    let document = pickle::read_within(bytes, Limits::default().depth, budget)?;
    let root = Cursor::root(&document);
    let mut sites = Sites::new(&document, budget)?;
    budget.charge_table::<bool>(document.containers())?;
    let mut seen = vec![false; document.containers()];

    let settings = Settings::read(&root)?;
    let (devices, segments) = (root.field("device_traces")?, root.field("segments")?);
    let mut histories = Vec::new();
    for entries in devices.items()? {
        let mut history = History::default();
        for entry in entries.items()? {
            history.step(&entry.unseen(&mut seen)?, &mut sites, budget)?;
        }
        budget.push(&mut histories, history)?;
    }
    let mut remains = Segments::read(&segments, &mut sites, &mut seen, budget)?;
    let mut traces = Vec::new();
    for (device, history) in (0..).zip(histories) {
        let trace = history.finish(remains.remove(device), &settings, budget)?;
        budget.push(&mut traces, (device, trace))?;
    }
    for (device, remains) in remains {
        let trace = History::default().finish(Some(remains), &settings, budget)?;
        budget.push(&mut traces, (device, trace))?;
    }
    Ok(named(name, traces))
}

/// Drops the devices on which nothing happened. The rest have their device in their name where there
/// are several.
fn named(name: &str, mut traces: Vec<(u64, Trace)>) -> Vec<Trace> {
    traces.retain(|(_, trace)| !trace.events.is_empty());
    let several = traces.len() > 1;
    let full = |device| if several { format!("{name}-device{device}") } else { name.to_owned() };
    traces.into_iter().map(|(device, trace)| Trace { name: full(device), ..trace }).collect()
}

#[cfg(test)]
mod tests;
