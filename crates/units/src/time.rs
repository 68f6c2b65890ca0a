//! Instants, spans and bandwidths, in whole picoseconds.
//!
//! No sum wraps around. Sums of spans saturate at the longest span, sums with an instant at the last instant before
//! [`Time::NEVER`]. Both lie beyond [`Time::HORIZON`], where an engine stops, so no result depends on them.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// Picoseconds in a second.
const PER_SECOND: u64 = 1_000_000_000_000;

/// The last instant before [`Time::NEVER`], in picoseconds: sums with an instant saturate here.
const LAST: u64 = u64::MAX - 1;

/// Instant of simulated time, in picoseconds since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// Length of simulated time, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// Start of the simulation.
    pub const ZERO: Self = Self(0);
    /// Sentinel for "not yet known": no sum of times yields it.
    pub const NEVER: Self = Self(u64::MAX);
    /// End of simulated time, 2⁶¹ − 1 ps (26 days): no event is handled after it. An instant up to here plus a few
    /// spans of this length fits in 64 bits.
    pub const HORIZON: Self = Self((1 << 61) - 1);

    /// First picosecond after the horizon, to which arithmetic on plain integers clamps: the sum of eight such values
    /// fits in 64 bits.
    pub const FAR: u64 = Self::HORIZON.0 + 1;

    /// Creates the instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Returns the picoseconds since the start.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Returns the nanoseconds since the start.
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// Span of zero length.
    pub const ZERO: Self = Self(0);
    /// Longest span, at which sums saturate.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Creates the span nearest to `ns` nanoseconds; `None` if negative, not a number, or beyond 64 bits.
    pub fn from_ns(ns: f64) -> Option<Self> {
        let ps = (ns * 1e3).round();
        // Below 2⁶³ the conversion is exact.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        (0.0..9e18).contains(&ps).then_some(Self(ps as u64))
    }

    /// Returns the mean, rounded down, without overflow; zero if there are no spans.
    pub fn mean(spans: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut count) = (0_u128, 0_u128);
        for span in spans {
            sum += u128::from(span.0);
            count += 1;
        }
        Self(u64::try_from(sum / count.max(1)).expect("a mean is no more than the greatest"))
    }

    /// Returns the difference, or zero if `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns the length in picoseconds.
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Returns the length in nanoseconds.
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

/// Data rate of a link or channel, in whole bytes per second; never zero.
///
/// ```
/// use cubeyard_units::{Bandwidth, Span};
///
/// let link = Bandwidth::from_gb_per_second(256.0).unwrap();
/// assert_eq!(link.span(256), Span::from_ps(1000));
/// assert_eq!(link.span(1), Span::from_ps(4)); // 3.9 ps, rounded up
/// assert_eq!(Bandwidth::from_gb_per_second(0.0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// Creates a bandwidth in bytes per second; `None` for zero.
    pub const fn from_bytes_per_second(bytes: u64) -> Option<Self> {
        if bytes == 0 { None } else { Some(Self(bytes)) }
    }

    /// Creates a bandwidth in GB/s (10⁹ bytes); `None` if it rounds to zero or exceeds 64 bits.
    pub fn from_gb_per_second(gb: f64) -> Option<Self> {
        let bytes = (gb * 1e9).round();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        (1.0..9e18).contains(&bytes).then_some(Self(bytes as u64))
    }

    /// Returns the bandwidth in bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Returns the bandwidth in GB/s (10⁹ bytes).
    pub fn gb_per_second(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time to transfer `bytes`, rounded up to a picosecond; saturates at [`Span::MAX`].
    pub fn span(self, bytes: u64) -> Span {
        // A 64-bit division if possible, since it is several times faster.
        if let Some(units) = bytes.checked_mul(PER_SECOND) {
            return Span(units.div_ceil(self.0));
        }
        let ps = (u128::from(bytes) * u128::from(PER_SECOND)).div_ceil(u128::from(self.0));
        Span(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

/// Saturates at the last instant before [`Time::NEVER`], which no engine reaches.
impl Add<Span> for Time {
    type Output = Self;
    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0).min(LAST))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Time {
    type Output = Span;
    fn sub(self, earlier: Self) -> Span {
        Span(self.0 - earlier.0)
    }
}

/// Saturates at the longest span.
impl Add for Span {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// Saturates at the longest span.
impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

/// Saturates at the longest span. Use [`Span::mean`] for a mean.
impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Add::add)
    }
}

/// Formats nanoseconds with as many decimals as needed: `77.04 ns`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1000, self.0 % 1000);
        f.pad(&format!("{} ns", text.trim_end_matches('0').trim_end_matches('.')))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} GB/s", self.gb_per_second()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_round_spans_up() {
        let slow = Bandwidth::from_bytes_per_second(3).unwrap();
        assert_eq!(slow.span(1), Span::from_ps(333_333_333_334));
        assert_eq!(slow.span(3), Span::from_ps(1_000_000_000_000));
        assert_eq!(slow.span(u64::MAX), Span::from_ps(u64::MAX));
    }

    #[test]
    fn sums_saturate_beyond_the_horizon_and_never_at_never() {
        let day = Span::from_ps(86_400 * PER_SECOND);
        assert_eq!(day * 300, Span::MAX);
        assert_eq!(day * 200 + day * 200, Span::MAX);
        let late = Time::from_ps(u64::MAX - 5);
        for sum in [late + day, Time::ZERO + Span::MAX, Time::NEVER + Span::ZERO] {
            assert!(Time::HORIZON < sum && sum < Time::NEVER, "{sum:?}");
        }
        assert_eq!(Span::mean([Span::MAX, Span::MAX, Span::MAX]), Span::MAX);
        assert_eq!(Span::mean([]), Span::ZERO);
    }

    #[test]
    fn nanoseconds_that_mean_nothing_are_refused() {
        for ns in [-1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!(Span::from_ns(ns), None, "{ns}");
        }
        assert_eq!(Span::from_ns(2.5), Some(Span::from_ps(2500)));
    }

    #[test]
    fn spans_print_without_idle_zeros() {
        assert_eq!(Span::from_ps(77_040).to_string(), "77.04 ns");
        assert_eq!(Span::from_ps(77_000).to_string(), "77 ns");
        assert_eq!(Span::from_ps(5).to_string(), "0.005 ns");
    }
}
