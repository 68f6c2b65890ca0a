//! Ticks of axes with their labels.

use cubeyard_units::Span;
use cubeyard_units::text::{TimeUnit, quantity};

/// Binary units of byte counts, in bytes.
pub const BYTE_UNITS: [(f64, &str); 6] = [
    (1.0, "bytes"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
];

/// Units of transfer rates, in bytes per second.
pub const RATE_UNITS: [(f64, &str); 5] =
    [(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")];

/// Units of times, in microseconds.
pub const TIME_UNITS: [(f64, &str); 6] = [
    (1e-3, "nanoseconds"),
    (1.0, "microseconds"),
    (1e3, "milliseconds"),
    (1e6, "seconds"),
    (60e6, "minutes"),
    (3600e6, "hours"),
];

/// Returns the largest unit that fits into `end` at least twice, so that few ticks are fractions.
pub fn unit(units: &[(f64, &'static str)], end: f64) -> (f64, &'static str) {
    let fitting = units.iter().rev().find(|(unit, _)| *unit * 2.0 <= end);
    *fitting.unwrap_or(&units[0])
}

/// Returns multiples of a round step from 0 to `end`, at most `most` in addition to 0.
pub fn multiples(end: f64, most: u32) -> impl Iterator<Item = f64> {
    let (step, end) = (nice_step(end / f64::from(most)), end * (1.0 + 1e-9));
    (0..=most).map(move |count| f64::from(count) * step).take_while(move |value| *value <= end)
}

/// Returns multiples of a round number of units from 0 to `end`, at most `most` in addition to 0, with labels in that
/// unit.
pub fn ticks(end: f64, unit: f64, most: u32) -> Vec<(f64, String)> {
    let decimals = decimals(nice_step(end / unit / f64::from(most)));
    let label =
        |value: f64| if value > 0.0 { format!("{value:.decimals$}") } else { "0".to_owned() };
    multiples(end / unit, most).map(|value| (value * unit, label(value))).collect()
}

/// Time axis from 0 to `end`.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeAxis {
    /// Unit of the labels.
    pub unit: TimeUnit,
    /// Ticks in picoseconds, with their labels.
    pub ticks: Vec<(f64, String)>,
    end: f64,
}

impl TimeAxis {
    /// Creates an axis with at most ten ticks.
    pub fn new(end: Span) -> Self {
        let unit = TimeUnit::of(end);
        let end = end.ps().max(1) as f64;
        Self { unit, ticks: ticks(end, unit.ps, 9), end }
    }

    /// Returns the coordinate of an instant, in picoseconds, on an axis of this length.
    pub fn position(&self, ps: f64, length: f64) -> f64 {
        (ps / self.end).clamp(0.0, 1.0) * length
    }
}

/// Returns the smallest of …, 0.2, 0.5, 1, 2, 5, 10, 20, … that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

/// Returns the number of decimals of multiples of this step.
fn decimals(step: f64) -> usize {
    // The computed power of ten may be slightly too small.
    let digits = (-(step * (1.0 + 1e-9)).log10().floor()).clamp(0.0, 9.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let decimals = digits as usize;
    decimals
}

/// Logarithmic axis of whole decades.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogAxis {
    low: f64,
    high: f64,
    /// Coordinates of the lowest and the highest value.
    from: f64,
    to: f64,
}

impl LogAxis {
    /// Creates an axis from the decade below the least of `values` to the decade above the greatest. All values must be
    /// positive and finite.
    pub fn around(values: &[f64], from: f64, to: f64) -> Self {
        let logs = || values.iter().map(|value| value.log10());
        let (low, high) = (logs().fold(f64::MAX, f64::min), logs().fold(f64::MIN, f64::max));
        Self { low: (low - 0.3).floor(), high: (high + 0.3).ceil(), from, to }
    }

    /// Returns the position of a value, clamped to the axis.
    pub fn position(&self, value: f64) -> f64 {
        self.place(value.log10())
    }

    fn place(&self, log: f64) -> f64 {
        let share = ((log - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Returns the decimal logarithm of the lowest value.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// Returns the coordinates and exponents of at most nine decades.
    pub fn decades(&self) -> Vec<(f64, i32)> {
        #[expect(clippy::cast_possible_truncation, reason = "exponents of a double")]
        let (low, high) = (self.low as i32, self.high as i32);
        let step = usize::try_from((high - low) / 9 + 1).unwrap_or(1);
        (low..=high).step_by(step).map(|power| (self.place(f64::from(power)), power)).collect()
    }
}

/// Formats a power of ten, as a plain number if it is short: `0.01`, `100`, `10⁴`.
pub fn power_of_ten(exponent: i32) -> String {
    match exponent {
        -3..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10_f64.powi(exponent)),
        0..=3 => format!("{:.0}", 10_f64.powi(exponent)),
        _ => format!("10{}", exponent.to_string().chars().map(superscript).collect::<String>()),
    }
}

/// Formats a power of ten with a unit prefix if there is one: `10 G`, `10²⁵`.
pub fn prefixed_power_of_ten(exponent: i32) -> String {
    match exponent {
        0..=20 => quantity(10_f64.powi(exponent), "").trim_end().to_owned(),
        _ => power_of_ten(exponent),
    }
}

fn superscript(character: char) -> char {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    character.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ps: u64) -> (Vec<String>, &'static str) {
        let axis = TimeAxis::new(Span::from_ps(ps));
        (axis.ticks.into_iter().map(|(_, text)| text).collect(), axis.unit.name)
    }

    #[test]
    fn ticks_are_round_in_the_unit_that_fits() {
        let (ticks, unit) = texts(82_040);
        assert_eq!((ticks.join(" ").as_str(), unit), ("0 10 20 30 40 50 60 70 80", "ns"));
        let (ticks, unit) = texts(1_300_000);
        assert_eq!((ticks.len(), ticks[1].as_str(), unit), (7, "0.2", "µs"));
        let (ticks, unit) = texts(2_000_000_000);
        assert_eq!((ticks.len(), ticks[4].as_str(), unit), (5, "2.0", "ms"));
        for ps in [0, 1, 7, 999, u64::MAX] {
            let (ticks, _) = texts(ps);
            assert!((2..=11).contains(&ticks.len()), "{ps}: {ticks:?}");
        }
    }

    #[test]
    fn instants_outside_an_axis_are_at_its_ends() {
        let axis = TimeAxis::new(Span::from_ps(200));
        let places = [0.0, 50.0, 200.0, 900.0].map(|ps| axis.position(ps, 80.0).to_string());
        assert_eq!(places, ["0", "20", "80", "80"]);
    }

    #[test]
    fn a_decade_is_everywhere_as_long() {
        let axis = LogAxis::around(&[20.0, 3000.0], 0.0, 300.0);
        let places = [1.0, 10.0, 100.0, 1000.0, 1e4, 1e9].map(|value| axis.position(value));
        assert_eq!(
            places.map(|place| format!("{place:.0}")),
            ["0", "0", "100", "200", "300", "300"]
        );
        let one = LogAxis::around(&[1.0], 0.0, 1.0);
        assert_eq!(one.decades().iter().map(|it| it.1).collect::<Vec<_>>(), [-1, 0, 1]);
        assert!(LogAxis::around(&[5e-324, 1e308], 0.0, 1.0).decades().len() <= 9);
    }

    #[test]
    fn powers_of_ten_are_short() {
        let texts = [-4, -2, 0, 3, 15].map(power_of_ten);
        assert_eq!(texts, ["10⁻⁴", "0.01", "1", "1000", "10¹⁵"]);
        let texts = [-1, 0, 4, 12, 20, 21].map(prefixed_power_of_ten);
        assert_eq!(texts, ["0.1", "1", "10 k", "1 T", "100 E", "10²¹"]);
    }

    #[test]
    fn bytes_are_counted_in_the_unit_that_fits() {
        let texts = |end: f64| -> (Vec<String>, &str) {
            let (unit, name) = unit(&BYTE_UNITS, end);
            (ticks(end, unit, 6).into_iter().map(|(_, text)| text).collect(), name)
        };
        let (gib, mib) = (BYTE_UNITS[3].0, BYTE_UNITS[2].0);
        assert_eq!(texts(8.4 * gib), (["0", "2", "4", "6", "8"].map(String::from).to_vec(), "GiB"));
        assert_eq!(texts(1365.0 * mib).0, ["0", "500", "1000"]);
        assert_eq!(texts(2.1 * mib).0, ["0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(texts(1.0).1, "bytes");
        assert!(texts(1.05 * u64::MAX as f64).0.len() < 8);
    }

    #[test]
    fn steps_are_round() {
        for (least, step) in
            [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (30.0, 50.0), (0.06, 0.1), (6.0, 10.0)]
        {
            assert!((nice_step(least) - step).abs() < 1e-9, "{least}");
        }
    }
}
