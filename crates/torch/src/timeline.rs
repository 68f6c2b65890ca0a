//! Allocated bytes of a device over simulated time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cubeyard_memory::flex::{Action, Event, Subscription};

use crate::devices::Device;
use crate::streams::Streams;

/// Changes of the allocated bytes, with their times in picoseconds.
type Changes = Arc<Mutex<Vec<(u64, i64)>>>;

/// Recorder of a device's allocated bytes. It ends when it is dropped.
///
/// A block is allocated, and freed, at the time at which its stream has finished the work submitted before. Blocks of
/// several streams therefore change the figure in the order of simulated time, not in the order of the calls.
#[derive(Debug)]
pub struct AllocatedBytes {
    changes: Changes,
    _subscription: Subscription,
}

impl AllocatedBytes {
    /// Begins a record of a device, with its present allocated bytes at the host's present time.
    pub fn record(device: &Device) -> Self {
        let present = device.allocator.stats().key("allocated_bytes.all.current").unwrap_or(0);
        let changes: Changes = Arc::new(Mutex::new(vec![(crate::streams::now(), present)]));
        let (log, streams) = (Arc::clone(&changes), Arc::clone(&device.streams));
        let note = move |event: &Event| lock(&log).extend(change(&streams, event));
        Self { changes, _subscription: device.allocator.subscribe(note) }
    }

    /// Returns the times of changes, in order, and the bytes from each time on. Of several changes at one time, only
    /// the last is returned.
    pub fn values(&self) -> Vec<(u64, i64)> {
        let mut changes = lock(&self.changes).clone();
        changes.sort_by_key(|&(time, _)| time);
        let mut values: Vec<(u64, i64)> = Vec::new();
        let mut bytes = 0;
        for (time, change) in changes {
            bytes += change;
            values.pop_if(|last| last.0 == time);
            values.push((time, bytes));
        }
        values
    }
}

/// Returns the change of the allocated bytes by an event.
fn change(streams: &Streams, event: &Event) -> Option<(u64, i64)> {
    let size = i64::try_from(event.size.get()).unwrap_or(i64::MAX);
    let change = match event.action {
        Action::Alloc => size,
        Action::FreeRequested => -size,
        _ => return None,
    };
    Some((streams.real_end(event.stream), change))
}

fn lock(changes: &Changes) -> MutexGuard<'_, Vec<(u64, i64)>> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}
