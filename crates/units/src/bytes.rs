//! Byte counts: sizes and offsets.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// Number of bytes: a size, or an offset from the start of an address space.
///
/// Arithmetic that may exceed 64 bits is offered as `checked_…`. The operators are for sums that are known to fit
/// (parts of one space) and panic on overflow in debug builds, like the operators of integers.
///
/// ```
/// use cubeyard_units::Bytes;
/// assert_eq!(Bytes::new(130).align_up(Bytes::new(128)), Some(Bytes::new(256)));
/// assert_eq!(Bytes::gib(12).to_string(), "12.00 GiB");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);
    /// Largest representable count, 2⁶⁴ − 1.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a count of `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Creates a count of `count` KiB (1,024 bytes).
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// Creates a count of `count` MiB (1,048,576 bytes).
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// Creates a count of `count` GiB (1,073,741,824 bytes).
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// Reads a number of bytes with an optional unit: `64K` and `64 KiB` are 65,536 bytes, `64KB` is 64,000, `256` and
    /// `256B` are 256.
    ///
    /// Returns `None` for text of another form, or for a number beyond 64 bits.
    ///
    /// ```
    /// use cubeyard_units::Bytes;
    ///
    /// assert_eq!(Bytes::read("64KiB"), Some(Bytes::kib(64)));
    /// assert_eq!(Bytes::read("64 kB"), Some(Bytes::new(64_000)));
    /// assert_eq!(Bytes::read("64 KBytes"), None);
    /// ```
    pub fn read(text: &str) -> Option<Self> {
        #[rustfmt::skip]
        const UNITS: [(&str, u64); 14] = [
            ("", 1), ("B", 1),
            ("K", 1 << 10), ("KIB", 1 << 10), ("KB", 1_000),
            ("M", 1 << 20), ("MIB", 1 << 20), ("MB", 1_000_000),
            ("G", 1 << 30), ("GIB", 1 << 30), ("GB", 1_000_000_000),
            ("T", 1 << 40), ("TIB", 1 << 40), ("TB", 1_000_000_000_000),
        ];
        let text = text.trim().to_ascii_uppercase();
        let digits = text.trim_end_matches(|symbol: char| symbol.is_ascii_alphabetic());
        let (_, size) = UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
        digits.trim_end().parse::<u64>().ok()?.checked_mul(*size).map(Self)
    }

    /// Returns the number of bytes as an integer.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether the count is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the sum, or `None` on overflow.
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the difference, or zero if `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Rounds up to a multiple of `alignment` (a power of two); `None` on overflow.
    pub const fn align_up(self, alignment: Self) -> Option<Self> {
        debug_assert!(alignment.0.is_power_of_two(), "alignments are powers of two");
        match self.0.checked_add(alignment.0 - 1) {
            Some(sum) => Some(Self(sum & !(alignment.0 - 1))),
            None => None,
        }
    }

    /// Rounds down to a multiple of `alignment` (a power of two).
    #[must_use]
    pub const fn align_down(self, alignment: Self) -> Self {
        debug_assert!(alignment.0.is_power_of_two(), "alignments are powers of two");
        Self(self.0 & !(alignment.0 - 1))
    }

    /// Returns whether this is a multiple of `alignment` (a power of two).
    pub const fn is_aligned(self, alignment: Self) -> bool {
        self.0 & (alignment.0 - 1) == 0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Add::add)
    }
}

/// Formats in binary units with two decimals; exact bytes below 1 KiB.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let power = (self.0.ilog2() / 10) as usize;
        let value = self.0 as f64 / (1_u64 << (10 * power)) as f64;
        f.pad(&format!("{value:.2} {}", UNITS[power - 1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_up_past_64_bits_is_refused() {
        assert_eq!(Bytes::MAX.align_up(Bytes::new(128)), None);
        assert_eq!(
            Bytes::new(u64::MAX - 127).align_up(Bytes::new(128)),
            Some(Bytes::new(u64::MAX - 127))
        );
    }

    #[test]
    fn units_of_two_and_of_ten_are_told_apart() {
        for (text, bytes) in
            [("64K", 65_536), ("64KiB", 65_536), ("64kb", 64_000), ("2 TB", 2_000_000_000_000)]
        {
            assert_eq!(Bytes::read(text), Some(Bytes::new(bytes)), "{text}");
        }
        for text in ["", "K", "64iB", "64 KBB", "6 4", "1.5K", "-1", "18446744073709551615K"] {
            assert_eq!(Bytes::read(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_not_above_them() {
        assert_eq!(Bytes::new(1023).to_string(), "1023 B");
        assert_eq!(Bytes::kib(1).to_string(), "1.00 KiB");
        assert_eq!(Bytes::mib(1536).to_string(), "1.50 GiB");
        assert_eq!(Bytes::MAX.to_string(), "16.00 EiB");
    }
}
