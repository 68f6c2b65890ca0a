//! Quantities of axes: formats of their values, and round values.

use cubeyard_units::Span;
use cubeyard_units::text::{bytes, count, quantity, significant, span};

use crate::axis::{BYTE_UNITS, RATE_UNITS, TIME_UNITS, multiples, ticks, unit};

/// Quantity whose values are formatted with a suitable unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Bytes, in binary units.
    Bytes,
    /// Bytes per second, with decimal prefixes.
    BytesPerSecond,
    /// Simulated or measured times, in microseconds.
    Microseconds,
    /// Dimensionless counts.
    Count,
}

impl Quantity {
    /// Returns the name by which the script knows the quantity.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "B/s",
            Self::Microseconds => "us",
            Self::Count => "",
        }
    }

    /// Formats a value with its unit.
    pub(super) fn text(self, value: f64) -> String {
        match self {
            Self::Bytes => bytes(whole(value)),
            Self::BytesPerSecond => quantity(value, "B/s"),
            Self::Microseconds => {
                Span::from_ns(value * 1e3).map_or_else(|| significant(value), span)
            }
            Self::Count if value.fract() == 0.0 => count(whole(value)),
            Self::Count => significant(value),
        }
    }

    /// Returns round values from 0 to `end` with their labels, at most `most` in addition to 0, and the unit of the
    /// labels.
    pub(super) fn ticks(self, end: f64, most: u32) -> (Vec<(f64, String)>, &'static str) {
        let units: &[(f64, &'static str)] = match self {
            Self::Bytes => &BYTE_UNITS,
            Self::BytesPerSecond => &RATE_UNITS,
            Self::Microseconds => &TIME_UNITS,
            Self::Count if end < f64::from(most) => &[(1.0, "")],
            Self::Count => {
                let tick = |value| (value, count(whole(value)));
                return (multiples(end, most).map(tick).collect(), "");
            }
        };
        let (size, name) = unit(units, end);
        (ticks(end, size, most), name)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(quantity: Quantity, end: f64) -> (String, &'static str) {
        let (ticks, unit) = quantity.ticks(end, 4);
        (ticks.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" "), unit)
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_fits() {
        assert_eq!(labels(Quantity::Bytes, 9000.0), ("0 5".to_owned(), "KiB"));
        assert_eq!(labels(Quantity::BytesPerSecond, 90e9), ("0 50".to_owned(), "GB/s"));
        assert_eq!(
            labels(Quantity::Microseconds, 0.4),
            ("0 100 200 300 400".to_owned(), "nanoseconds")
        );
        assert_eq!(labels(Quantity::Microseconds, 4e6), ("0 1 2 3 4".to_owned(), "seconds"));
        assert_eq!(labels(Quantity::Count, 4000.0), ("0 1,000 2,000 3,000 4,000".to_owned(), ""));
        assert_eq!(labels(Quantity::Count, 2.0), ("0 0.5 1.0 1.5 2.0".to_owned(), ""));
    }

    #[test]
    fn values_are_written_with_their_unit() {
        assert_eq!(Quantity::Bytes.text(2048.0), "2.00 KiB");
        assert_eq!(Quantity::BytesPerSecond.text(1.5e9), "1.5 GB/s");
        assert_eq!(Quantity::Microseconds.text(0.25), "250 ns");
        assert_eq!([1024.0, 0.5].map(|it| Quantity::Count.text(it)), ["1,024", "0.5"]);
    }
}
