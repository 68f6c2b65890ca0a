//! How the flits of a train cross a link between which nobody else does.

use std::cell::Cell;

use super::Passage;
use crate::Time;
use crate::event::Place;
use crate::link::LinkState;
use crate::transfer::{Train, Transfer};

impl<M> Transfer<M> {
    /// What is known of its train on the link of a hop it comes to, where its last flit takes `span`.
    #[inline]
    pub(crate) fn passage(&self, hop: u16, rank: u32, span: u64) -> Passage {
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

    /// Lets all flits cross the link of a hop, between whom nobody does: when it is free then.
    #[inline]
    pub(crate) fn cross(&mut self, hop: u16, link: &LinkState, before: u64, span: u64) -> u64 {
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

    /// As [`cross`](Self::cross), up to times beyond the end of simulated time.
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

/// Takes what lies beyond the end of simulated time for one instant, so that times do not grow until they wrap.
#[cold]
pub(crate) fn clamp(times: &mut [u64]) {
    times.iter_mut().for_each(|time| *time = Time::FAR.min(*time));
}

impl LinkState {
    /// Works out when the flits of a train leave the node behind the link, of whom each asks at a time and nobody
    /// crosses it between them: when it is free then.
    #[inline]
    fn cross(
        &self,
        asks: &[Cell<u64>],
        leaves: &[Cell<u64>],
        before: u64,
        span: u64,
        overhead: u64,
    ) -> u64 {
        let mut crossing = Crossing { link: self, free: before, header: 0 };
        let last = asks.len() - 1;
        let first = if last == 0 { span } else { self.flit };
        crossing.header = crossing.next(asks[0].get(), first) + overhead;
        leaves[0].set(crossing.header);
        if last > 0 {
            for (ask, leaves) in asks[1..last].iter().zip(&leaves[1..last]) {
                leaves.set(crossing.next(ask.get(), self.flit));
            }
            leaves[last].set(crossing.next(asks[last].get(), span));
        }
        crossing.free
    }
}

/// Flits of a train that cross a link one after the other.
struct Crossing<'a> {
    link: &'a LinkState,
    free: u64,
    header: u64,
}

impl Crossing<'_> {
    /// When the next flit, which asks at a time and takes a while, leaves the node behind the link.
    #[inline]
    fn next(&mut self, ask: u64, span: u64) -> u64 {
        let start = self.free.max(ask);
        self.free = start + span;
        self.link.arrival(start, self.free).max(self.header)
    }
}
