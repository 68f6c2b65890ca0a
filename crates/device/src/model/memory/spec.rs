//! Parameters of a memory: channels, banks, rows and refresh.

use cubeyard_sim::{Bandwidth, Span};

/// Channels of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelsSpec {
    /// Length of a burst, in bytes.
    pub burst_bytes: u64,
    /// Number of channels.
    pub channels: u64,
    /// Time for which a burst occupies its channel.
    pub burst: Span,
    /// Additional time when the previous burst had the other direction.
    pub turn_around: Span,
    /// Banks and rows of each channel; `None` if every burst costs the same.
    pub rows: Option<RowsSpec>,
}

impl ChannelsSpec {
    /// Returns the total bandwidth of all channels; `None` if bursts take no time.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        let bytes = u128::from(self.burst_bytes) * u128::from(self.channels) * 1_000_000_000_000;
        let rate = bytes.checked_div(u128::from(self.burst.ps()))?;
        Bandwidth::from_bytes_per_second(u64::try_from(rate).ok()?)
    }
}

/// Banks of each channel. Each keeps a row open until another row is needed or a refresh comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsSpec {
    /// Number of banks of a channel.
    pub banks: u32,
    /// Bytes of a channel in one row; a multiple of the burst length.
    pub row_bytes: u64,
    /// Time to open a row (tRCD).
    pub activate: Span,
    /// Time to close a row (tRP).
    pub precharge: Span,
    /// Refresh of the banks; `None` if they are never refreshed.
    pub refresh: Option<RefreshSpec>,
}

/// Refresh of all banks of a channel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshSpec {
    /// Interval between refreshes (tREFI).
    pub interval: Span,
    /// Duration of a refresh (tRFC), once all rows are closed.
    pub takes: Span,
}

impl RowsSpec {
    /// Returns the shortest refresh interval that always leaves time for a burst.
    pub fn least_interval(&self, burst: Span, turn_around: Span) -> Span {
        let takes = self.refresh.map_or(Span::ZERO, |refresh| refresh.takes);
        let one = Span::from_ps(1);
        [self.activate, self.precharge, takes, burst, turn_around, one].into_iter().sum()
    }
}
