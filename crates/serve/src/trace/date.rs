//! Dates and times of Azure's traces, such as `2023-11-16 18:17:03.9799600`.

use super::{Source, TICK_PS};
use crate::error::ServeError;

/// Days from the first of March of the year 0 to the first of January 2000.
const DAYS_TO_2000: u64 = 730_425;

/// Reads an instant, in ticks since the year 2000.
pub(super) fn instant(
    source: &Source<'_>,
    line: usize,
    key: &str,
    text: &str,
) -> Result<u64, ServeError> {
    let expected = "a date and time from 2000 to 2099, such as 2023-11-16 18:17:03.97";
    ticks(text.trim()).ok_or_else(|| source.line(line, key, expected, text))
}

fn ticks(text: &str) -> Option<u64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let date = parts(date, '-', [(2000, 2099), (1, 12), (1, 31)])?;
    // All rows of a trace have the same time zone, and only differences count.
    let time = time.split(['+', 'Z']).next()?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = parts(clock, ':', [(0, 23), (0, 59), (0, 60)])?;
    let digits: String = fraction.chars().chain("0000000".chars()).take(7).collect();
    let is_number = digits.chars().all(|digit| digit.is_ascii_digit());
    let fraction: u64 = digits.parse().ok().filter(|_| is_number)?;
    let seconds = ((days(date) * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * (1_000_000_000_000 / TICK_PS) + fraction)
}

/// Splits a text into three numbers within limits.
fn parts(text: &str, at: char, limits: [(u64, u64); 3]) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split(at).map(|part| part.parse().ok()).collect();
    let numbers: [u64; 3] = numbers?.try_into().ok()?;
    let mut both = numbers.iter().zip(limits);
    both.all(|(number, (low, high))| (low..=high).contains(number)).then_some(numbers)
}

/// Returns the days from the first of January 2000 to a date.
fn days([year, month, day]: [u64; 3]) -> u64 {
    // Months are counted from March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - DAYS_TO_2000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400 * 10_000_000;

    #[test]
    fn days_count_from_2000_with_leap_years() {
        // As Python's `(date(y, m, d) - date(2000, 1, 1)).days`.
        let dates = [
            ("2000-01-01", 0),
            ("2000-02-29", 59),
            ("2000-03-01", 60),
            ("2001-01-01", 366),
            ("2023-11-16", 8720),
            ("2024-05-10", 8896),
            ("2099-12-31", 36_524),
        ];
        for (date, days) in dates {
            assert_eq!(ticks(&format!("{date} 00:00:00")), Some(days * DAY), "{date}");
        }
    }

    #[test]
    fn fractions_and_time_zones_are_read_and_other_texts_are_none() {
        let second = 10_000_000;
        assert_eq!(ticks("2000-01-01 00:01:02.5"), Some(62 * second + second / 2));
        assert_eq!(ticks("2000-01-01T00:00:00.0000001+00:00"), Some(1));
        for text in
            ["", "2000-01-01", "1999-01-01 00:00:00", "2000-13-01 00:00:00", "2000-01-01 0:0"]
        {
            assert_eq!(ticks(text), None, "{text}");
        }
    }
}
