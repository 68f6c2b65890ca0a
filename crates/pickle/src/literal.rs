//! Parsers of numbers and text in pickles.

use super::Value;
use super::error::Problem;
use crate::excerpt::excerpt;

/// Parses an integer of any length in little-endian two's complement.
pub(super) fn long(bytes: &[u8]) -> Result<Value, Problem> {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let sign = if negative { 0xff } else { 0 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    let mut extended = [sign; 8];
    extended[..low.len()].copy_from_slice(low);
    let number = u64::from_le_bytes(extended);
    let fits = high.iter().all(|&byte| byte == sign) && (!negative || number >> 63 == 1);
    match (fits, negative) {
        (false, _) => Err(Problem::Integer { bytes: bytes.len() }),
        (true, true) => Ok(Value::Integer(number.cast_signed())),
        (true, false) => Ok(Value::unsigned(number)),
    }
}

/// Parses the argument of `INT`, which also represents booleans.
pub(super) fn int(line: &[u8]) -> Result<Value, Problem> {
    match line {
        b"00" => Ok(Value::Boolean(false)),
        b"01" => Ok(Value::Boolean(true)),
        _ => decimal(line),
    }
}

/// Parses the argument of `LONG`, which ends in an `L`.
pub(super) fn decimal(line: &[u8]) -> Result<Value, Problem> {
    let digits = line.strip_suffix(b"L").unwrap_or(line);
    let text = str::from_utf8(digits).unwrap_or_default();
    let unsigned = || text.parse().map(Value::unsigned);
    text.parse().map(Value::Integer).or_else(|_| unsigned()).map_err(|_| Problem::Literal {
        expected: "an integer of at most 64 bits",
        found: excerpt(line),
    })
}

pub(super) fn float(line: &[u8]) -> Result<Value, Problem> {
    let parsed = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    let wrong = || Problem::Literal { expected: "a float", found: excerpt(line) };
    parsed.map(Value::Float).ok_or_else(wrong)
}

/// Parses the argument of `GET` and `PUT`.
pub(super) fn memo_index(line: &[u8]) -> Result<u64, Problem> {
    let parsed = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Problem::Literal { expected: "a place in the memo", found: excerpt(line) })
}

/// Parses the UTF-8 argument of a binary opcode.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Problem> {
    str::from_utf8(bytes)
        .map_err(|_| Problem::Literal { expected: "UTF-8 text", found: excerpt(bytes) })
}

/// Parses the argument of `UNICODE`: Latin-1, with other characters as `\uXXXX` or `\UXXXXXXXX`.
pub(super) fn escaped_text(line: &[u8]) -> Result<String, Problem> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&first, after)) = rest.split_first() {
        let escape = match rest {
            [b'\\', b'u', ..] => Some(6),
            [b'\\', b'U', ..] => Some(10),
            _ => None,
        };
        let Some(length) = escape else {
            text.push(char::from(first));
            rest = after;
            continue;
        };
        let wrong = || Problem::Literal { expected: "escaped text", found: excerpt(rest) };
        text.push(rest.get(2..length).and_then(character).ok_or_else(wrong)?);
        rest = &rest[length..];
    }
    Ok(text)
}

fn character(digits: &[u8]) -> Option<char> {
    let add = |sum: u32, &byte: &u8| Some(sum << 4 | char::from(byte).to_digit(16)?);
    char::from_u32(digits.iter().try_fold(0, add)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_integers_end_at_64_bits() {
        assert_eq!(long(b""), Ok(Value::Integer(0)));
        assert_eq!(long(b"\xff"), Ok(Value::Integer(-1)));
        assert_eq!(long(b"\xff\x00"), Ok(Value::Integer(255)));
        assert_eq!(long(b"\0\0\0\0\0\0\0\x80"), Ok(Value::Integer(i64::MIN)));
        assert_eq!(long(b"\0\0\0\0\0\0\0\x80\0"), Ok(Value::Large(1 << 63)));
        assert_eq!(long(b"\0\0\0\0\0\0\0\x80\xff"), Ok(Value::Integer(i64::MIN)));
        assert_eq!(long(b"\0\0\0\0\0\0\0\0\x01"), Err(Problem::Integer { bytes: 9 }));
        assert_eq!(
            long(b"\xff\xff\xff\xff\xff\xff\xff\x7f\xff"),
            Err(Problem::Integer { bytes: 9 })
        );
    }

    #[test]
    fn escapes_stand_for_characters() {
        assert_eq!(escaped_text(b"a\xe9\\u20ac\\U0001f600\\x").as_deref(), Ok("aé€😀\\x"));
        for wrong in [&b"\\u12"[..], b"\\ud800", b"\\U00110000", b"\\u12g4"] {
            assert!(escaped_text(wrong).is_err(), "{wrong:?}");
        }
    }
}
