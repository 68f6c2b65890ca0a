//! The bursts of accesses, flit by flit.

use std::ops::Range;

use cubeyard_sim::Time;

use super::Memory;
use crate::message::{Access, Direction, RequestId, Rows};

/// A burst that has been given a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Whose it is.
    pub request: RequestId,
    /// The flit that it belongs to.
    pub flit: u64,
    /// Which channel it has.
    pub channel: u64,
    /// Read or write.
    pub direction: Direction,
    /// When it was asked for.
    pub asked: Time,
    /// When it starts to move data.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}

impl Memory {
    /// Takes the bursts of one flit and says when the last ends.
    #[inline]
    pub(super) fn take_bursts(
        &mut self,
        access: &Access,
        flit: u64,
        bytes: u64,
        asked: Time,
    ) -> Time {
        let from = flit * self.flit_bytes;
        let Some(rows) = access.rows else {
            let bursts = self.channels.numbers(access.address + from, bytes);
            return self.take(bursts, access, flit, asked);
        };
        self.take_rows(rows, access, flit, bytes, asked)
    }

    /// As [`take_bursts`](Self::take_bursts), of an access to rows.
    fn take_rows(
        &mut self,
        rows: Rows,
        access: &Access,
        flit: u64,
        bytes: u64,
        asked: Time,
    ) -> Time {
        let from = flit * self.flit_bytes;
        let burst = self.channels.spec().burst_bytes;
        let mut last = asked;
        let mut next = 0;
        for (offset, bytes) in rows.segments(from, bytes) {
            // What of a burst a row leaves over is there for the next, if it begins in it.
            let (first, end) = ((access.address + offset) / burst, access.address + offset + bytes);
            let bursts = first.max(next)..end.div_ceil(burst);
            next = bursts.end;
            last = last.max(self.take(bursts, access, flit, asked));
        }
        last
    }

    /// Takes bursts by number and says when the last ends.
    #[inline]
    fn take(&mut self, bursts: Range<u64>, access: &Access, flit: u64, asked: Time) -> Time {
        if self.record.is_some() {
            return self.take_and_keep(bursts, access, flit, asked);
        }
        self.channels.bursts(bursts, access.direction, asked)
    }

    #[cold]
    fn take_and_keep(
        &mut self,
        bursts: Range<u64>,
        access: &Access,
        flit: u64,
        asked: Time,
    ) -> Time {
        let (request, direction) = (access.request, access.direction);
        let mut last = asked;
        for number in bursts {
            let end = self.channels.burst(number, direction, asked);
            let channel = number % self.channels.spec().channels;
            let start = Time::from_ps(end.ps() - self.channels.spec().burst.ps());
            let burst = Burst { request, flit, channel, direction, asked, start, end };
            self.record.get_or_insert_default().push(burst);
            last = last.max(end);
        }
        last
    }
}
