//! Channels that bursts take in turn.

use cubeyard_sim::{Bandwidth, Span, Time};

use super::rows::{Asking, Rows, RowsSpec};
use crate::message::Direction;

/// The channels of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelsSpec {
    /// How many bytes a burst moves.
    pub burst_bytes: u64,
    /// How many channels there are.
    pub channels: u64,
    /// How long a burst takes a channel.
    pub burst: Span,
    /// How much longer when the burst before went the other way.
    pub turn_around: Span,
    /// The banks of a channel and their rows. Without them a burst costs the same wherever it lies.
    pub rows: Option<RowsSpec>,
}

impl ChannelsSpec {
    /// All channels together; none if bursts take no time.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        let bytes = u128::from(self.burst_bytes) * u128::from(self.channels) * 1_000_000_000_000;
        let rate = bytes.checked_div(u128::from(self.burst.ps()))?;
        Bandwidth::from_bytes_per_second(u64::try_from(rate).ok()?)
    }
}

/// When each channel is free. It is told the time, so that it can be tested without an engine.
///
/// ```
/// use cubeyard_device::message::Direction;
/// use cubeyard_device::model::{Channels, ChannelsSpec};
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
/// let mut channels = Channels::new(spec);
/// let mut burst = |number, direction| channels.burst(number, direction, Time::ZERO) - Time::ZERO;
/// assert_eq!(burst(0, Direction::Read), ns(8));
/// assert_eq!(burst(1, Direction::Read), ns(8)); // the other channel
/// assert_eq!(burst(2, Direction::Read), ns(16)); // the first again
/// assert_eq!(burst(4, Direction::Write), ns(16 + 3 + 8)); // and turned around
/// ```
#[derive(Clone, Debug)]
pub struct Channels {
    spec: ChannelsSpec,
    state: Vec<Channel>,
    rows: Option<Box<Rows>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    free: Time,
    direction: Option<Direction>,
    busy: Span,
}

impl Channels {
    /// Channels that are all free.
    ///
    /// # Panics
    /// If there are none, or bursts are of no bytes; if rows are not of whole bursts, or refreshes leave no
    /// time for a burst ([`RowsSpec::least_interval`]).
    pub fn new(spec: ChannelsSpec) -> Self {
        assert!(spec.channels > 0 && spec.burst_bytes > 0, "a memory of nothing");
        let channels = usize::try_from(spec.channels).expect("a machine has few channels");
        let rows = spec.rows.map(|rows| Box::new(Rows::new(rows, &spec)));
        Self { spec, state: vec![Channel::default(); channels], rows }
    }

    /// What they were made from.
    pub fn spec(&self) -> &ChannelsSpec {
        &self.spec
    }

    /// Takes the channel of burst `number` of the memory, asked for at `asked`, and says when it ends.
    #[inline]
    pub fn burst(&mut self, number: u64, direction: Direction, asked: Time) -> Time {
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of channels")]
        let index = (number % self.spec.channels) as usize;
        let channel = &mut self.state[index];
        let mut start = asked.max(channel.free);
        if channel.direction.is_some_and(|last| last != direction) {
            start += self.spec.turn_around;
        }
        if let Some(rows) = &mut self.rows {
            let (number, free) = (number / self.spec.channels, channel.free);
            start = rows.start(Asking { channel: index, number, asked, free, start });
        }
        channel.direction = Some(direction);
        channel.busy += self.spec.burst;
        channel.free = start + self.spec.burst;
        channel.free
    }

    /// How long each channel has moved data.
    pub fn busy(&self) -> impl Iterator<Item = Span> + '_ {
        self.state.iter().map(|channel| channel.busy)
    }
}
