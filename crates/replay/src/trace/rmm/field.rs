//! Columns by name, and parsers of their fields.

use super::RmmError;
use cubeyard_pickle::excerpt;
use cubeyard_units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Time,
    Action,
    Pointer,
    Size,
    Stream,
}

impl Column {
    const ALL: [Self; 5] = [Self::Time, Self::Action, Self::Pointer, Self::Size, Self::Stream];

    const fn name(self) -> &'static str {
        match self {
            Self::Time => "Time",
            Self::Action => "Action",
            Self::Pointer => "Pointer",
            Self::Size => "Size",
            Self::Stream => "Stream",
        }
    }
}

/// The column at each position of a line.
#[derive(Debug)]
pub(super) struct Header {
    places: Vec<Option<Column>>,
}

impl Header {
    pub(super) fn parse(line: usize, text: &[u8]) -> Result<Self, RmmError> {
        let named = |name: &[u8]| {
            Column::ALL.into_iter().find(|column| column.name().as_bytes() == name.trim_ascii())
        };
        let places: Vec<_> = text.split(|&byte| byte == b',').map(named).collect();
        match Column::ALL.into_iter().find(|&column| !places.contains(&Some(column))) {
            Some(column) => Err(RmmError::NoColumn { line, column: column.name() }),
            None => Ok(Self { places }),
        }
    }

    /// Splits a line into fields without allocating.
    pub(super) fn row<'a>(&self, line: usize, text: &'a [u8]) -> Row<'a> {
        let mut fields = [None; Column::ALL.len()];
        for (place, field) in self.places.iter().zip(text.split(|&byte| byte == b',')) {
            if let Some(column) = place {
                fields[*column as usize] = Some(field.trim_ascii());
            }
        }
        Row { line, fields }
    }
}

#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) line: usize,
    fields: [Option<&'a [u8]>; Column::ALL.len()],
}

impl<'a> Row<'a> {
    pub(super) fn text(&self, column: Column) -> Result<&'a [u8], RmmError> {
        let short = RmmError::ShortLine { line: self.line, column: column.name() };
        self.fields[column as usize].ok_or(short)
    }

    pub(super) fn pointer(&self) -> Result<u64, RmmError> {
        self.number(Column::Pointer, address, "an address of at most 64 bits")
    }

    pub(super) fn size(&self) -> Result<Bytes, RmmError> {
        self.number(Column::Size, decimal, "a number of bytes of at most 64 bits").map(Bytes::new)
    }

    pub(super) fn stream(&self) -> Result<i128, RmmError> {
        self.number(Column::Stream, address, "a number or an address").map(i128::from)
    }

    pub(super) fn time_us(&self) -> Result<u64, RmmError> {
        self.number(Column::Time, time_us, "a time like 15:47:02.841961")
    }

    fn number(
        &self,
        column: Column,
        parse: fn(&[u8]) -> Option<u64>,
        expected: &'static str,
    ) -> Result<u64, RmmError> {
        parse(self.text(column)?).ok_or_else(|| self.wrong(column, expected))
    }

    /// Creates the error for a field with the wrong format.
    pub(super) fn wrong(&self, column: Column, expected: &'static str) -> RmmError {
        let field = self.fields[column as usize].unwrap_or_default();
        let found = excerpt(field);
        RmmError::Field { line: self.line, column: column.name(), expected, found }
    }
}

/// Parses an address: hexadecimal after `0x`, `(nil)` as C libraries print a null pointer, otherwise decimal.
fn address(text: &[u8]) -> Option<u64> {
    if text == b"(nil)" {
        return Some(0);
    }
    match text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        Some(digits) => whole(digits, 16),
        None => decimal(text),
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    whole(text, 10)
}

fn whole(digits: &[u8], radix: u32) -> Option<u64> {
    let add = |sum: u64, &byte: &u8| {
        let digit = char::from(byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Parses hours, minutes, seconds and a fraction; RMM versions separate the fraction by a point or a colon.
fn time_us(text: &[u8]) -> Option<u64> {
    let mut parts = text.split(|byte| matches!(byte, b':' | b'.'));
    let hours = decimal(parts.next()?)?;
    let minutes = decimal(parts.next()?).filter(|&minutes| minutes < 60)?;
    // A leap second is the sixty-first of its minute.
    let seconds = decimal(parts.next()?).filter(|&seconds| seconds <= 60)?;
    let fraction_us = parts.next().map_or(Some(0), microseconds)?;
    let whole = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    let time = whole.checked_mul(1_000_000)?.checked_add(fraction_us)?;
    parts.next().is_none().then_some(time)
}

/// Parses the digits after the point as microseconds; further digits are truncated.
fn microseconds(digits: &[u8]) -> Option<u64> {
    let kept = &digits[..digits.len().min(6)];
    let scale = 10_u64.pow(6 - u32::try_from(kept.len()).ok()?);
    decimal(digits).and_then(|_| decimal(kept)).map(|fraction| fraction * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_three_spellings() {
        assert_eq!(address(b"0x7fA0"), Some(0x7fa0));
        assert_eq!(address(b"512"), Some(512));
        assert_eq!(address(b"(nil)"), Some(0));
        assert_eq!(address(b"0xffffffffffffffff"), Some(u64::MAX));
        for wrong in ["", "0x", "7f", "-1", "0x1ffffffffffffffff", "1.5"] {
            assert_eq!(address(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn both_spellings_of_a_time_mean_the_same() {
        assert_eq!(time_us(b"01:02:03.000004"), Some(3_723_000_004));
        assert_eq!(time_us(b"01:02:03:000004"), Some(3_723_000_004));
        assert_eq!(time_us(b"00:00:01"), Some(1_000_000));
        assert_eq!(time_us(b"00:00:01.5"), Some(1_500_000));
        assert_eq!(time_us(b"00:00:01.123456789"), Some(1_123_456));
        for wrong in ["", "1", "00:60:00", "00:00:61", "00:00:00.", "00:00:00.x", "0:0:0:0:0"] {
            assert_eq!(time_us(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
