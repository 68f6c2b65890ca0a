//! Channels that serve bursts in turn.

use std::ops::Range;

use cubeyard_sim::{Span, Time};

use super::ChannelsSpec;
use super::rows::{Asking, OpenRows};
use crate::access::Direction;

/// Occupation of the channels. The time is an argument, so no engine is needed.
///
/// ```
/// use cubeyard_device::message::Direction;
/// use cubeyard_device::model::{MemoryChannels, ChannelsSpec};
/// use cubeyard_sim::{Bandwidth, Span, Time};
///
/// let ns = |ns: u64| Span::from_ps(ns * 1000);
/// let spec = ChannelsSpec {
///     burst_bytes: 256,
///     channels: 2,
///     burst: ns(8),
///     turn_around: ns(3),
///     rows: None,
/// };
/// let mut channels = MemoryChannels::new(spec);
/// let mut burst = |number, direction| channels.burst(number, direction, Time::ZERO) - Time::ZERO;
/// assert_eq!(burst(0, Direction::Read), ns(8));
/// assert_eq!(burst(1, Direction::Read), ns(8)); // the other channel
/// assert_eq!(burst(2, Direction::Read), ns(16)); // the first again
/// assert_eq!(burst(4, Direction::Write), ns(16 + 3 + 8)); // and turned around
/// ```
#[derive(Clone, Debug)]
pub struct MemoryChannels {
    spec: ChannelsSpec,
    burst_bytes: Divisor,
    count: Divisor,
    state: Vec<ChannelState>,
    rows: Option<Box<OpenRows>>,
}

/// Frequently used divisor. Most are powers of two, for which a shift is faster.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    number: u64,
    /// Exponent, if the divisor is a power of two.
    power: Option<u32>,
}

impl Divisor {
    fn new(number: u64) -> Self {
        Self { number, power: number.is_power_of_two().then(|| number.trailing_zeros()) }
    }

    #[inline]
    fn quotient(self, dividend: u64) -> u64 {
        self.power.map_or_else(|| dividend / self.number, |power| dividend >> power)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ChannelState {
    free: Time,
    direction: Option<Direction>,
    busy: Span,
}

impl ChannelState {
    /// Returns the earliest start of a burst, regardless of rows.
    #[inline]
    fn start(&self, direction: Direction, asked: Time, turn_around: Span) -> Time {
        let start = asked.max(self.free);
        let turns = self.direction.is_some_and(|last| last != direction);
        if turns { start + turn_around } else { start }
    }

    /// Occupies the channel with a burst, and returns its end.
    #[inline]
    fn take(&mut self, start: Time, direction: Direction, burst: Span) -> Time {
        self.direction = Some(direction);
        self.busy += burst;
        self.free = start + burst;
        self.free
    }
}

impl MemoryChannels {
    /// Creates channels that are all free.
    ///
    /// # Panics
    /// If there are no channels or bursts are empty; if rows do not consist of whole bursts, or refreshes leave no time
    /// for a burst ([`RowsSpec::least_interval`](super::RowsSpec::least_interval)).
    pub fn new(spec: ChannelsSpec) -> Self {
        assert!(spec.channels > 0 && spec.burst_bytes > 0, "a memory of nothing");
        let channels = usize::try_from(spec.channels).expect("a machine has few channels");
        let rows = spec.rows.map(|rows| Box::new(OpenRows::new(rows, &spec)));
        let state = vec![ChannelState::default(); channels];
        let (burst_bytes, count) = (Divisor::new(spec.burst_bytes), Divisor::new(spec.channels));
        Self { spec, burst_bytes, count, state, rows }
    }

    /// Returns the parameters.
    pub fn spec(&self) -> &ChannelsSpec {
        &self.spec
    }

    /// Returns the burst numbers of a range: its length rounded up to whole bursts, starting at the burst of `address`.
    #[inline]
    pub(super) fn numbers(&self, address: u64, bytes: u64) -> Range<u64> {
        let first = self.burst_bytes.quotient(address);
        first..first + self.burst_bytes.quotient(bytes + self.spec.burst_bytes - 1)
    }

    /// Schedules burst `number` of the memory, requested at `asked`, and returns its end.
    pub fn burst(&mut self, number: u64, direction: Direction, asked: Time) -> Time {
        let index = self.channel_of(number);
        let channel = &mut self.state[index];
        let mut start = channel.start(direction, asked, self.spec.turn_around);
        if let Some(rows) = &mut self.rows {
            let (number, free) = (self.count.quotient(number), channel.free);
            start = rows.start(Asking { channel: index, number, asked, free, start });
        }
        channel.take(start, direction, self.spec.burst)
    }

    /// Schedules several bursts, and returns the end of the last one; `asked` if there are none.
    #[inline]
    pub(super) fn bursts(
        &mut self,
        numbers: Range<u64>,
        direction: Direction,
        asked: Time,
    ) -> Time {
        if self.rows.is_some() {
            return numbers
                .fold(asked, |last, number| last.max(self.burst(number, direction, asked)));
        }
        let mut index = self.channel_of(numbers.start);
        let ChannelsSpec { burst, turn_around, .. } = self.spec;
        let mut last = asked;
        for _ in numbers {
            let channel = &mut self.state[index];
            let start = channel.start(direction, asked, turn_around);
            last = last.max(channel.take(start, direction, burst));
            index = if index + 1 == self.state.len() { 0 } else { index + 1 };
        }
        last
    }

    #[expect(clippy::cast_possible_truncation, reason = "less than the number of channels")]
    #[inline]
    fn channel_of(&self, number: u64) -> usize {
        (number - self.count.quotient(number) * self.spec.channels) as usize
    }

    /// Returns the total data transfer time of each channel.
    pub fn busy(&self) -> impl Iterator<Item = Span> + '_ {
        self.state.iter().map(|channel| channel.busy)
    }
}
