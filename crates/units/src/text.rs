//! Numbers as text: four significant digits and a suitable unit.

use crate::{Bytes, Span};

/// Placeholder for a value that is not finite.
const NONE: &str = "–";

/// Formats a span in a suitable unit, with four digits: `12.35 µs`.
pub fn span(span: Span) -> String {
    let unit = TimeUnit::of(span);
    format!("{} {}", unit.digits(span), unit.name)
}

/// Unit of time in which a span is printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit {
    /// Symbol of the unit, e.g. `µs`.
    pub name: &'static str,
    /// Length of the unit in picoseconds.
    pub ps: f64,
}

const TIME_UNITS: [TimeUnit; 4] = [
    TimeUnit { name: "ns", ps: 1e3 },
    TimeUnit { name: "µs", ps: 1e6 },
    TimeUnit { name: "ms", ps: 1e9 },
    TimeUnit { name: "s", ps: 1e12 },
];

impl TimeUnit {
    /// Returns the largest unit not longer than `span`, or nanoseconds.
    pub fn of(span: Span) -> Self {
        let fitting = TIME_UNITS.into_iter().rev().find(|unit| unit.ps <= span.ps() as f64);
        fitting.unwrap_or(TIME_UNITS[0])
    }

    /// Formats `span` in this unit with four digits.
    fn digits(self, span: Span) -> String {
        significant(span.ps() as f64 / self.ps)
    }

    /// Formats `span` in this unit with three decimals, for a table column.
    pub fn column(self, span: Span) -> String {
        format!("{:.3}", span.ps() as f64 / self.ps)
    }
}

/// Formats a quantity with a decimal prefix and four digits: `1.234 TB/s`.
pub fn quantity(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 7] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let (size, prefix) =
        PREFIXES.into_iter().find(|(size, _)| *size <= value.abs()).unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", significant(value / size))
}

/// Formats a number with about four digits and no trailing zeros; very large and very small numbers as powers of ten.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if !size.is_finite() => return NONE.to_owned(),
        size if size > 0.0 && size < 0.001 => return format!("{value:.2e}"),
        size if size > 0.0 && size < 0.01 => 5,
        size if size > 0.0 && size < 0.1 => 4,
        size if size < 10.0 => 3,
        size if size < 100.0 => 2,
        size if size < 1000.0 => 1,
        size if size < 1e9 => return grouped(value),
        _ => return format!("{value:.2e}"),
    };
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rounds `value` and formats it with a comma between thousands.
fn grouped(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let text = count(value.abs().round() as u64);
    if value < 0.0 { format!("-{text}") } else { text }
}

/// Formats an integer with a comma between thousands: `65,536`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a fraction as a percentage: `56 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        value if !value.is_finite() => NONE.to_owned(),
        value if value.abs() > 0.0 && value.abs() < 0.05 => "≈ 0 %".to_owned(),
        value if value.abs() < 1000.0 => {
            format!("{} %", format!("{value:.1}").trim_end_matches(".0"))
        }
        value => format!("{} %", significant(value)),
    }
}

/// Formats a fraction as a percentage without decimals: `56 %`, `0 %`.
pub fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a fraction as a percentage with one decimal, for a table column.
pub fn percent_column(share: f64) -> String {
    match share * 100.0 {
        value if value.abs() < 100_000.0 => format!("{value:.1} %"),
        _ => percent(share),
    }
}

/// Formats a number of bytes in binary units.
pub fn bytes(amount: u64) -> String {
    Bytes::new(amount).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_the_unit_that_fits() {
        for (ps, text) in [
            (0, "0 ns"),
            (5, "0.005 ns"),
            (999_900, "999.9 ns"),
            (1_000_000, "1 µs"),
            (12_345_678, "12.35 µs"),
            (2_500_000_000, "2.5 ms"),
            (u64::MAX, "18,446,744 s"),
        ] {
            assert_eq!(span(Span::from_ps(ps)), text);
        }
    }

    #[test]
    fn quantities_have_a_prefix() {
        for (value, text) in [
            (0.0, "0 B/s"),
            (0.000_01, "1.00e-5 B/s"),
            (999.0, "999 B/s"),
            (1e3, "1 kB/s"),
            (1.2345e12, "1.234 TB/s"),
            (1e30, "1.00e12 EB/s"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(quantity(value, "B/s"), text);
        }
    }

    #[test]
    fn shares_are_percentages() {
        for (share, text) in [
            (0.0, "0 %"),
            (1e-9, "≈ 0 %"),
            (0.004, "0.4 %"),
            (0.56, "56 %"),
            (1.0, "100 %"),
            (123.4, "12,340 %"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(percent(share), text);
        }
        let columns = [0.5, 0.0, 1e9, f64::NAN].map(percent_column);
        assert_eq!(columns, ["50.0 %", "0.0 %", "1.00e11 %", "–"]);
        assert_eq!([0.0, 0.004, 0.556, 1.0].map(whole_percent), ["0 %", "0 %", "56 %", "100 %"]);
    }
}
