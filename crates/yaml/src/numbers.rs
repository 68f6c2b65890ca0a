//! Numbers in YAML notation.

use cubeyard_units::Bytes;

pub(super) fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses a number in YAML notation; Rust's parser would also accept `inf` and `nan`.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    text.bytes().all(is_number).then(|| text.parse().ok())?
}

pub(super) fn bytes(text: &str) -> Option<Bytes> {
    const UNITS: [(&str, u32); 5] =
        [(" KiB", 10), (" MiB", 20), (" GiB", 30), (" TiB", 40), (" B", 0)];
    let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (count, shift) = unit.unwrap_or((text, 0));
    let count = digits(count)?;
    count.checked_mul(1 << shift).map(Bytes::new)
}
