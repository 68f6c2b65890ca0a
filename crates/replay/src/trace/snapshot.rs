//! PyTorch's memory snapshots, as written by `torch.cuda.memory._dump_snapshot`.
//!
//! A snapshot is a pickled dictionary. `device_traces` lists the actions of each device's allocator, and
//! `segments` its memory at the end. Both yield a [`Trace`] for each device, with requested sizes:
//!
//! - A free has two phases. The program frees with `free_requested`, but the memory is not reused while another stream
//!   still uses it. So the trace frees at `free_completed`, or at `free_requested` if PyTorch was configured not to
//!   record completions. A block whose free was not completed when the snapshot was taken stays live. The requests of
//!   frees that were completed later are kept as well ([`SharedFree`](super::SharedFree)).
//! - The history is a ring, so its oldest entries may be lost. A block that is freed without an allocation was live at
//!   the start. So was a block that is live at the end and has no entry. These blocks are allocated at time zero, in
//!   address order.
//! - Call sites are numbered from 1 by the file, line and function of their frames. A block that was live at the start
//!   and then freed has call site 0: only the frames of its free are known.
//! - The recorded peak is found by walking back from the segments at the end. It covers the remaining history, and is
//!   unknown if history and segments contradict each other (they are not recorded at the same moment).
//! - A history is complete if nothing was reserved at its start. [`Recording`](super::Recording) holds this, the
//!   settings and the failed requests.
//!
//! The same entry may not occur twice. PyTorch writes a dictionary per entry; otherwise a small file that repeats one
//! dictionary could yield a trace of any length.

mod cursor;
mod history;
mod reserved;
mod segments;
mod settings;
mod sites;

use std::sync::Arc;

use thiserror::Error;

use self::cursor::Cursor;
use self::history::History;
use self::segments::Segments;
use self::settings::Settings;
use self::sites::Sites;
use super::{CallStacks, Trace};
use cubeyard_pickle::Budget;
use cubeyard_pickle::MemoryLimit;
use cubeyard_pickle::{self as pickle, Limits, PickleError, Problem};
use cubeyard_units::Bytes;

/// Reason why a snapshot could not be read. The only remedy is for a memory limit that was too low.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// The file is not a pickle of plain data.
    #[error(transparent)]
    Pickle(PickleError),
    /// The file and everything read from it take more memory than the limit. Raise the limit, or record a shorter
    /// part.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
    /// A part of the snapshot has the wrong type or value.
    #[error("{part}: expected {expected}, found {found}")]
    Part {
        /// Path of the part in Python's notation.
        part: String,
        /// Description of a valid value.
        expected: &'static str,
        /// Value that was found.
        found: String,
    },
    /// An entry occurs a second time.
    #[error("{part}: expected a new entry, found an object that occurs earlier")]
    Repeated {
        /// Path of the second occurrence.
        part: String,
    },
    /// An address is allocated while it is live.
    #[error("{part}: {address:#x} is allocated, but is already live")]
    AlreadyLive {
        /// Path of the entry.
        part: String,
        /// Address of the allocation.
        address: u64,
    },
    /// An address is freed while it is not live.
    #[error("{part}: {address:#x} is freed, but is not live")]
    NotLive {
        /// Path of the entry.
        part: String,
        /// Address that was freed.
        address: u64,
    },
    /// There are more allocations, streams or call sites than 32 bits can number.
    #[error("expected at most 2³² allocations, streams and call sites, found more")]
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

/// Reads a snapshot: one trace for each device with allocations, in order.
///
/// A snapshot without allocations yields no trace. `limit` bounds the memory for the file and everything read from it.
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
    let stacks = Arc::new(sites.finish(budget)?);
    Ok(named(name, traces, &stacks))
}

/// Drops the devices without events. If several remain, their traces are named by device.
fn named(name: &str, mut traces: Vec<(u64, Trace)>, stacks: &Arc<CallStacks>) -> Vec<Trace> {
    traces.retain(|(_, trace)| !trace.events.is_empty());
    let several = traces.len() > 1;
    let full = |device| if several { format!("{name}-device{device}") } else { name.to_owned() };
    let whole = |(device, trace)| Trace { name: full(device), stacks: Arc::clone(stacks), ..trace };
    traces.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests;
