//! Banks with open rows and refresh, and the resulting earliest start of a burst.
//!
//! A channel's bursts are distributed to its banks by address. Burst `n` of the memory is number `c = ⌊n / channels⌋`
//! on its channel. A row holds `row_bytes / burst_bytes` of these bursts. Rows are numbered from 0 upwards, and row `r`
//! is row `⌊r / banks⌋` of bank `r mod banks`. So adjacent addresses share a row, and the following rows are in other
//! banks.

use cubeyard_sim::{Span, Time};

use super::{ChannelsSpec, RefreshSpec, RowsSpec};

/// Open rows of all banks of a memory.
#[derive(Clone, Debug)]
pub(super) struct OpenRows {
    spec: RowsSpec,
    burst: Span,
    bursts_in_row: u64,
    channels: Vec<Banks>,
}

#[derive(Clone, Debug)]
struct Banks {
    banks: Vec<Bank>,
    /// Time of the next refresh.
    due: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    open: Option<u64>,
    /// End of the latest burst or refresh; the row can be opened or closed from then on.
    free: Time,
}

/// Burst that requests a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) channel: usize,
    /// Number of the burst on its channel, by address.
    pub(super) number: u64,
    pub(super) asked: Time,
    /// End of the channel's latest burst.
    pub(super) free: Time,
    /// Earliest start, regardless of rows.
    pub(super) start: Time,
}

impl OpenRows {
    /// Creates banks that are all closed. The first refresh is due after one interval.
    ///
    /// # Panics
    /// If there are no banks, rows do not consist of whole bursts, or refreshes leave no time for a burst.
    pub(super) fn new(spec: RowsSpec, memory: &ChannelsSpec) -> Self {
        let bursts_in_row = spec.row_bytes / memory.burst_bytes;
        let is_whole = bursts_in_row * memory.burst_bytes == spec.row_bytes;
        assert!(spec.banks > 0 && bursts_in_row > 0 && is_whole, "rows of no whole bursts");
        let least = spec.least_interval(memory.burst, memory.turn_around);
        let interval = spec.refresh.map(|refresh| refresh.interval);
        assert!(interval.is_none_or(|interval| interval >= least), "nothing but refreshes");
        let due = interval.map_or(Time::NEVER, |interval| Time::ZERO + interval);
        let banks = Banks { banks: vec![Bank::default(); spec.banks as usize], due };
        let channels = usize::try_from(memory.channels).expect("a machine has few channels");
        Self { spec, burst: memory.burst, bursts_in_row, channels: vec![banks; channels] }
    }

    /// Opens the row of a burst, and returns the start of the burst.
    #[inline(never)]
    pub(super) fn start(&mut self, burst: Asking) -> Time {
        let row = burst.number / self.bursts_in_row;
        let banks = u64::from(self.spec.banks);
        let bank = usize::try_from(row % banks).expect("less than the number of banks");
        let row = row / banks;
        let start = loop {
            let Banks { banks, due } = &self.channels[burst.channel];
            let start = burst.start.max(self.row_ready(banks[bank], row, burst.asked));
            // There is no refresh beyond the end of simulated time, where the time of a refresh would stop growing.
            if start < *due || start > Time::HORIZON {
                break start;
            }
            self.refresh(&burst);
        };
        let free = start + self.burst;
        self.channels[burst.channel].banks[bank] = Bank { open: Some(row), free };
        start
    }

    /// Returns the time at which a row of a bank is open, if it is requested at `asked`.
    fn row_ready(&self, bank: Bank, row: u64, asked: Time) -> Time {
        let from = asked.max(bank.free);
        match bank.open {
            Some(open) if open == row => from,
            Some(_) => from + self.spec.precharge + self.spec.activate,
            None => from + self.spec.activate,
        }
    }

    /// Performs the refresh that is due before this burst. The refresh waits for the current burst, and until open rows
    /// are closed. Of several refreshes that came due while the channel was idle, only the last one matters.
    fn refresh(&mut self, burst: &Asking) {
        let RefreshSpec { interval, takes } = self.spec.refresh.expect("it is due");
        let Banks { banks, due } = &mut self.channels[burst.channel];
        let idle = burst.asked.ps().saturating_sub(due.ps()) / interval.ps();
        let last = *due + Span::from_ps(idle * interval.ps());
        let is_open = idle == 0 && banks.iter().any(|bank| bank.open.is_some());
        let close = if is_open { self.spec.precharge } else { Span::ZERO };
        let free = last.max(burst.free) + close + takes;
        banks.fill(Bank { open: None, free });
        *due = last + interval;
    }
}
