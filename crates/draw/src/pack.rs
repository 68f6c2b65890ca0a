//! Packing of data for scripts: gzip in base64, which is plain text on any page.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Compresses bytes, and returns them as base64.
pub fn pack(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    base64(&written.expect("writing to memory never fails"))
}

/// Returns an element that holds packed bytes. A script finds it by its class.
pub fn element(class: &str, bytes: &[u8]) -> String {
    format!("<script type=\"text/plain\" class=\"packed {class}\">{}</script>\n", pack(bytes))
}

/// Appends a number with seven bits per byte, lowest first (LEB128). Scripts read up to 53 bits exactly.
pub fn put(bytes: &mut Vec<u8>, number: impl Into<u128>) {
    let mut number = number.into();
    while number > 127 {
        bytes.push(number.to_le_bytes()[0] | 128);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Appends the difference of two numbers. Small differences of either sign are short; their order is 0, -1, 1, -2, 2.
pub fn put_difference(bytes: &mut Vec<u8>, from: u64, to: u64) {
    let apart = u128::from(to.abs_diff(from));
    put(bytes, if to < from { 2 * apart - 1 } else { 2 * apart });
}

/// Replaces control characters, which serve as separators of lines and fields.
pub fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Returns bytes as base64 (RFC 4648) with padding.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [first, second, third] = [0, 1, 2].map(|at| chunk.get(at).copied().unwrap_or(0));
        let bits = u32::from_be_bytes([0, first, second, third]);
        for place in 0..4_usize {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of RFC 4648.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in vectors.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), expected);
        }
    }

    #[test]
    fn numbers_take_seven_bits_of_a_byte() {
        let mut bytes = Vec::new();
        [0, 127, 128, 300, u64::MAX].into_iter().for_each(|number| put(&mut bytes, number));
        assert_eq!(bytes[..6], [0, 127, 128, 1, 172, 2]);
        assert_eq!(bytes[6..], [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }

    #[test]
    fn small_differences_of_either_sign_are_short() {
        let mut bytes = Vec::new();
        for (from, to) in [(7, 7), (7, 6), (7, 8), (1000, 936), (0, 64)] {
            put_difference(&mut bytes, from, to);
        }
        assert_eq!(bytes, [0, 1, 2, 127, 128, 1]);
        put_difference(&mut bytes, u64::MAX, 0);
        assert_eq!(bytes[6..], [253, 255, 255, 255, 255, 255, 255, 255, 255, 3]);
    }

    #[test]
    fn long_data_becomes_short() {
        let packed = pack(&vec![7; 100_000]);
        assert!(packed.len() < 400 && packed.starts_with("H4sI"), "{packed}");
    }
}
