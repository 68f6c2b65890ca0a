//! Dates of files, in UTC.

/// Number of days in 400 years, after which the calendar repeats.
const DAYS_OF_ERA: u64 = 146_097;
/// Number of days from the 1st of March of year 0 to the 1st of January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Formats a time in seconds since 1970 in UTC, e.g. `2026-03-01 12:30`.
pub(super) fn text(seconds: u64) -> String {
    let [year, month, day] = date(seconds / 86_400);
    let minutes = seconds / 60 % 1440;
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns the year, month and day of a number of days since 1970. Years are counted from March, so that the day that
/// leap years add is the last one.
fn date(days: u64) -> [u64; 3] {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / (DAYS_OF_ERA - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March have 153 days in each group of five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    [era * 400 + year + later, month, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_formatted() {
        assert_eq!(text(0), "1970-01-01 00:00");
        assert_eq!(text(951_782_399), "2000-02-28 23:59");
        assert_eq!(text(1_078_012_800), "2004-02-29 00:00");
        assert_eq!(text(4_107_542_400), "2100-03-01 00:00");
    }

    /// Counts the days one by one, by the rule of the Gregorian calendar.
    #[test]
    fn each_day_follows_the_one_before() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let length = |year, month| match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let [mut year, mut month, mut day] = [1970, 1, 1];
        for days in 0..200_000 {
            assert_eq!(date(days), [year, month, day], "{days}");
            day += 1;
            if day > length(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
