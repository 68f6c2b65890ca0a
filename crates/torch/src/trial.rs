//! Trials: simulated time that is forgotten afterwards.
//!
//! A tuner runs a kernel with several settings before the program's own launch. During a trial, all times of this
//! thread continue from the clocks of the process in a table of their own. The clocks themselves do not change, so the
//! program and the other threads do not see the trial. Times only grow: a time during a trial is the later of the
//! process's time and the table's.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Numbers of a PE: its SIP, its cube in the SIP, and its own in the cube.
pub type Pe = (u32, u32, u32);

/// Direction of data on the PCIe link of a SIP. Both can be used at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// To the SIP.
    In,
    /// From the SIP.
    Out,
}

/// One direction of the PCIe link of a SIP.
pub type Link = (u32, Direction);

/// Part of the machine that has a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The host, with its clock.
    Host,
    /// A stream: the address of the device's streams, and the stream's number.
    Stream(usize, u32),
    /// A PE of the machine.
    Pe(Pe),
    /// All PEs of a SIP.
    Sip(u32),
    /// One direction of a PCIe link.
    Link(Link),
}

thread_local! {
    /// Times of the trials of this thread, the innermost last.
    static TRIALS: RefCell<Vec<BTreeMap<Part, u64>>> = const { RefCell::new(Vec::new()) };
}

/// Begins a trial on this thread. A trial within another continues from the other's times.
pub fn begin() {
    TRIALS.with_borrow_mut(|trials| {
        let times = trials.last().cloned().unwrap_or_default();
        trials.push(times);
    });
}

/// Ends the innermost trial of this thread, and forgets its times. Returns whether there was one.
pub fn end() -> bool {
    TRIALS.with_borrow_mut(|trials| trials.pop().is_some())
}

/// Returns whether this thread is in a trial.
pub fn is_active() -> bool {
    TRIALS.with_borrow(|trials| !trials.is_empty())
}

/// Returns the time of a part in the trial; 0 without a trial.
pub(crate) fn time(part: Part) -> u64 {
    TRIALS
        .with_borrow(|trials| trials.last().and_then(|times| times.get(&part).copied()))
        .unwrap_or(0)
}

/// Returns the latest time of a device's streams in the trial; 0 without a trial.
pub(crate) fn latest(streams: usize) -> u64 {
    TRIALS.with_borrow(|trials| {
        let times = trials.last().into_iter().flatten();
        let of_streams = |part: &Part| matches!(part, Part::Stream(at, _) if *at == streams);
        times.filter(|(part, _)| of_streams(part)).map(|(_, time)| *time).max().unwrap_or(0)
    })
}

/// Returns the latest time of a SIP's single PEs in the trial; 0 without a trial.
pub(crate) fn latest_pe(sip: u32) -> u64 {
    let pes = Part::Pe((sip, 0, 0))..=Part::Pe((sip, u32::MAX, u32::MAX));
    TRIALS.with_borrow(|trials| {
        let times = trials.last().into_iter().flat_map(|times| times.range(pes.clone()));
        times.map(|(_, time)| *time).max().unwrap_or(0)
    })
}

/// Raises the time of a part in the trial. Returns whether there is a trial.
pub(crate) fn raise(part: Part, time: u64) -> bool {
    TRIALS.with_borrow_mut(|trials| {
        let Some(times) = trials.last_mut() else { return false };
        let known = times.entry(part).or_insert(0);
        *known = time.max(*known);
        true
    })
}
