//! Checks that a kernel accesses only memory of tensors.

use std::ops::Range;

use cubeyard_device::message::Rows;
use cubeyard_device::pe::Dma;

use super::reference::Accesses;
use super::{KernelState, Tape, Tl};

impl Tl {
    /// Ends the kernel if an access is not within a tensor.
    #[track_caller]
    pub(crate) fn check_live(&self, accesses: &[Dma]) {
        for dma in accesses {
            if let Some(address) = outside(&self.state.site.live, dma) {
                self.fail(refusal(dma, address));
            }
        }
    }
}

impl KernelState {
    /// Checks the accesses of a recording against the tensors that exist now.
    pub(crate) fn check_live(&self, live: &[Range<u64>]) -> Result<(), String> {
        let tape = self.tape.borrow();
        let reach = self.reach.get_or_init(|| reach(&tape));
        let is_within = |range: &Range<u64>| first_outside(live, range.clone()).is_none();
        if reach.iter().all(is_within) {
            return Ok(());
        }
        // The extent of strided rows includes the gaps between them, so each access is checked separately.
        for command in commands(&tape) {
            for dma in accesses(&tape, command) {
                if let Some(address) = outside(live, &dma) {
                    let at = tape.place(command);
                    return Err(self.problem(at, &refusal(&dma, address)));
                }
            }
        }
        Ok(())
    }
}

fn refusal(dma: &Dma, address: u64) -> String {
    let Dma { direction: verb, address: from, bytes, .. } = dma;
    format!("{verb} of {bytes} bytes from {from:#x} on: {address:#x} is outside every tensor")
}

/// Returns the first address of an access that is in no tensor.
fn outside(live: &[Range<u64>], dma: &Dma) -> Option<u64> {
    first_outside(live, extent(dma))?;
    let rows = dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: 0 });
    rows.segments(0, dma.bytes).find_map(|(offset, bytes)| {
        let from = dma.address + offset;
        first_outside(live, from..from.saturating_add(bytes))
    })
}

/// Returns the address range of an access from its first byte to its last.
fn extent(dma: &Dma) -> Range<u64> {
    let bytes = dma.extent();
    dma.address..dma.address.saturating_add(bytes)
}

/// Returns the first address of a range that is in no tensor. `live` is sorted by address.
fn first_outside(live: &[Range<u64>], range: Range<u64>) -> Option<u64> {
    let mut at = range.start;
    while at < range.end {
        let place = live.partition_point(|range| range.start <= at);
        match live[..place].last().filter(|range| range.end > at) {
            Some(range) => at = range.end,
            None => return Some(at),
        }
    }
    None
}

/// Returns the address ranges that a recording accesses, sorted and disjoint.
fn reach(tape: &Tape) -> Vec<Range<u64>> {
    let all = commands(tape).flat_map(|command| accesses(tape, command));
    let mut all: Vec<_> = all.map(|dma| extent(&dma)).collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut reach: Vec<Range<u64>> = Vec::new();
    for range in all {
        match reach.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => reach.push(range),
        }
    }
    reach
}

fn commands(tape: &Tape) -> impl Iterator<Item = u32> + use<> {
    0..u32::try_from(tape.commands()).expect("commands are numbered with 32 bits")
}

fn accesses(tape: &Tape, command: u32) -> Accesses {
    tape.order(command).effect.accesses(&tape.work(command))
}
