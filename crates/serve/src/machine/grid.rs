//! Points at which times are simulated, and interpolation between them.

use cubeyard_units::Span;

/// Points at which times are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grid {
    /// Every number that occurs.
    Each,
    /// Numbers of increasing distance.
    Steps,
}

/// Quantity along which times are interpolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// Number of sequences, or of units of tokens: powers of two, and up to 256 one and a half times these.
    Count,
    /// Context of sequences, at least 1: powers of four.
    Length,
    /// Number of parts of a prompt before another: 0, and powers of two.
    Parts,
}

/// Neighbouring points of a number, and its place between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Around {
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) at: u64,
}

impl Grid {
    /// Returns the neighbouring points of a number.
    pub(super) fn around(self, at: u64, axis: Axis) -> Around {
        if self == Self::Each {
            return Around { low: at, high: at, at };
        }
        let (mut low, mut high) = (axis.first(), axis.first());
        while high < at {
            (low, high) = (high, axis.next(high));
        }
        // A point is its own neighbour.
        let low = if high == at { at } else { low };
        Around { low, high, at }
    }

    /// Returns the neighbouring points of a number among the multiples of `unit`, which are simulated at the points of
    /// the axis.
    pub(super) fn around_multiples(self, at: u64, unit: u64, axis: Axis) -> Around {
        let low = self.around(at / unit, axis).low;
        let high = self.around(at.div_ceil(unit), axis).high;
        Around { low: low * unit, high: high * unit, at }
    }
}

impl Axis {
    fn first(self) -> u64 {
        match self {
            Self::Count | Self::Length => 1,
            Self::Parts => 0,
        }
    }

    fn next(self, point: u64) -> u64 {
        match self {
            Self::Count if point >= 256 => point * 2,
            Self::Count if point.is_power_of_two() => point + (point / 2).max(1),
            Self::Count => point / 3 * 4,
            Self::Length => point * 4,
            Self::Parts => (point * 2).max(1),
        }
    }
}

impl Around {
    /// Interpolates between the times at the neighbouring points; beyond them the same line goes on.
    pub(super) fn between(self, low: Span, high: Span) -> Span {
        if self.low == self.high {
            return low;
        }
        let [one, other] = [low, high].map(|span| i128::from(span.ps()));
        let [of, all] = [self.at - self.low, self.high - self.low].map(i128::from);
        let span = one + (other - one) * of / all;
        Span::from_ps(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_lies_between_its_neighbours_and_points_are_their_own() {
        let points = |axis: Axis, most| {
            let all = std::iter::successors(Some(axis.first()), |point| Some(axis.next(*point)));
            all.take_while(|point| *point <= most).collect::<Vec<_>>()
        };
        assert_eq!(points(Axis::Count, 33), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
        assert_eq!(points(Axis::Count, 1100)[14..], [192, 256, 512, 1024]);
        assert_eq!(points(Axis::Length, 300), [1, 4, 16, 64, 256]);
        assert_eq!(points(Axis::Parts, 9), [0, 1, 2, 4, 8]);
        for axis in [Axis::Count, Axis::Length, Axis::Parts] {
            let known = points(axis, 5000);
            for at in axis.first()..3000 {
                let around = Grid::Steps.around(at, axis);
                assert!(around.low <= at && at <= around.high, "{axis:?} {at}: {around:?}");
                assert_eq!(known.contains(&at), around.low == around.high, "{axis:?} {at}");
                assert!(known.contains(&around.low) && known.contains(&around.high));
            }
        }
    }

    #[test]
    fn multiples_around_a_number_are_points_of_the_axis() {
        let around = |grid: Grid, at| {
            let Around { low, high, .. } = grid.around_multiples(at, 96, Axis::Parts);
            [low / 96, high / 96]
        };
        assert_eq!(
            [0, 1, 96, 100, 500].map(|at| around(Grid::Steps, at)),
            [[0, 0], [0, 1], [1, 1], [1, 2], [4, 8]]
        );
        assert_eq!(
            [0, 1, 96, 100, 500].map(|at| around(Grid::Each, at)),
            [[0, 0], [0, 1], [1, 1], [1, 2], [5, 6]]
        );
    }

    #[test]
    fn what_is_linear_is_interpolated_exactly() {
        let time = |at: u64| Span::from_ps(500 + 30 * at);
        for at in 1..500 {
            let around = Grid::Steps.around(at, Axis::Length);
            assert_eq!(around.between(time(around.low), time(around.high)), time(at));
        }
    }
}
