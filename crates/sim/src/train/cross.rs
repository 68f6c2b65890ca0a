//! Link crossings of trains that do not interleave with others.

use std::cell::Cell;

use super::Passage;
use crate::Time;
use crate::event::Place;
use crate::link::LinkState;
use crate::transfer::{Train, Transfer};

impl<M> Transfer<M> {
    /// Creates the train's entry for the link of a hop, where its last flit takes `span`.
    #[inline]
    pub(super) fn passage(&self, hop: u16, rank: u32, span: u64) -> Passage {
        let Train { is_brief, begun, times, .. } = &self.train;
        let flits = self.flits as usize;
        let row = if *is_brief { usize::from(hop > self.leg.from) } else { self.row(hop) };
        let row = &times[row * flits..(row + 1) * flits];
        let place = |at| Place { at, rank }.max(*begun);
        Passage {
            slot: self.slot,
            flits: self.flits,
            crossed: 0,
            changed: Passage::UNCHANGED,
            rank,
            hop,
            is_apart: true,
            is_brief: *is_brief,
            before: 0,
            span,
            first: place(row[0]),
            last: place(row[flits - 1]),
        }
    }

    /// Schedules the flits back to back on the link of a hop; returns when the link is free.
    #[inline]
    pub(super) fn cross(&mut self, hop: u16, link: &LinkState, before: u64, span: u64) -> u64 {
        let free = self.cross_freely(hop, link, before, span);
        let flits = self.flits as usize;
        let row = if self.train.is_brief { 1 } else { self.row(hop) + 1 };
        let leaves = &mut self.train.times[row * flits..(row + 1) * flits];
        if leaves[flits - 1] <= Time::FAR {
            return free;
        }
        clamp(leaves);
        free.min(Time::FAR)
    }

    /// Does the same as [`cross`](Self::cross), but times may exceed the end of simulated time.
    #[inline]
    fn cross_freely(&mut self, hop: u16, link: &LinkState, before: u64, span: u64) -> u64 {
        let (flits, overhead) = (self.flits as usize, self.charged(hop, link));
        let times = &mut self.train.times[..];
        if self.train.is_brief {
            if hop == self.leg.from {
                times.copy_within(..flits, flits);
            }
            self.hops[usize::from(hop)].header = times[2 * flits - 1];
            let row = Cell::from_mut(&mut times[flits..2 * flits]).as_slice_of_cells();
            return link.cross(row, row, before, span, overhead);
        }
        let row = usize::from(hop - self.leg.from) * flits;
        let rows = Cell::from_mut(&mut times[row..row + 2 * flits]).as_slice_of_cells();
        let (asks, leaves) = rows.split_at(flits);
        link.cross(asks, leaves, before, span, overhead)
    }
}

/// Clamps times to the end of simulated time, so that they never wrap around.
#[cold]
pub(super) fn clamp(times: &mut [u64]) {
    times.iter_mut().for_each(|time| *time = Time::FAR.min(*time));
}

impl LinkState {
    /// Computes when flits that request the link at `asks` leave the downstream node; returns when the link is free.
    /// The link is free from `before`, and the last flit takes `span`.
    #[inline]
    fn cross(
        &self,
        asks: &[Cell<u64>],
        leaves: &[Cell<u64>],
        before: u64,
        span: u64,
        overhead: u64,
    ) -> u64 {
        let mut free = before;
        let mut next = |ask: u64, span: u64, header: u64| {
            let start = free.max(ask);
            free = start + span;
            self.arrival(start, free).max(header)
        };
        let last = asks.len() - 1;
        let first = if last == 0 { span } else { self.flit };
        let header = next(asks[0].get(), first, 0) + overhead;
        leaves[0].set(header);
        if last > 0 {
            for (ask, leaves) in asks[1..last].iter().zip(&leaves[1..last]) {
                leaves.set(next(ask.get(), self.flit, header));
            }
            leaves[last].set(next(asks[last].get(), span, header));
        }
        free
    }
}
