//! Writer of traces as RMM logs.

use std::io::{self, Write};

use crate::trace::{Event, Trace};
use cubeyard_memory::flex::RmmRow;

/// Distance between addresses, in bytes: twice RMM's alignment of 256 bytes.
const ADDRESS_STEP: u64 = 512;

/// Writes `trace` so that RMM's own tools, and [`read`](super::read), can replay it.
///
/// Every allocation has its own address. Call sites and the recorded peak are lost; streams are renumbered in the
/// order of their first use when the log is read.
///
/// # Panics
///
/// If the trace frees an allocation that it did not make.
pub fn write(trace: &Trace, mut sink: impl Write) -> io::Result<()> {
    writeln!(sink, "{}", RmmRow::HEADER)?;
    let mut made = vec![None; trace.allocations as usize];
    for event in &trace.events {
        let (action, id, time_us) = match *event {
            Event::Allocate(allocate) => {
                made[allocate.id.index()] = Some((allocate.size, allocate.stream));
                ("allocate", allocate.id, allocate.time_us)
            }
            Event::Free { id, time_us } => ("free", id, time_us),
        };
        let (size, stream) = made[id.index()].expect("a trace frees only what it allocated");
        let pointer = (u64::from(id.0) + 1) * ADDRESS_STEP;
        writeln!(sink, "{}", RmmRow { thread: 1, time_us, action, pointer, size, stream })?;
    }
    Ok(())
}
