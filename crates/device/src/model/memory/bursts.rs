//! Bursts of accesses, flit by flit.

use std::ops::Range;

use cubeyard_sim::Time;

use super::Memory;
use crate::message::{Access, Direction, RequestId, Rows};

/// Burst on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Request that the burst belongs to.
    pub request: RequestId,
    /// Index of the burst's flit in the transfer.
    pub flit: u64,
    /// Number of the burst's channel.
    pub channel: u64,
    /// Direction of the data.
    pub direction: Direction,
    /// Time of the request for the channel.
    pub asked: Time,
    /// Start of the data transfer.
    pub start: Time,
    /// End of the data transfer.
    pub end: Time,
}

impl Memory {
    /// Schedules the bursts of one flit, and returns the end of the last.
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
            // A burst at the end of a row also serves the next row, if that row begins within the same burst.
            let (first, end) = ((access.address + offset) / burst, access.address + offset + bytes);
            let bursts = first.max(next)..end.div_ceil(burst);
            next = bursts.end;
            last = last.max(self.take(bursts, access, flit, asked));
        }
        last
    }

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
