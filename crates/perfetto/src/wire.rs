//! The part of protobuf's wire format that traces need.

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH_DELIMITED: u32 = 2;

/// Encoded message to which fields are appended.
#[derive(Debug, Default)]
pub(super) struct MessageBuffer(Vec<u8>);

impl MessageBuffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    pub(super) fn uint(&mut self, number: u32, value: u64) {
        self.tag(number, VARINT);
        self.varint(value);
    }

    /// Appends a signed number in two's complement (`int32`, `int64`); negative numbers take ten bytes.
    pub(super) fn int(&mut self, number: u32, value: i64) {
        self.uint(number, value.cast_unsigned());
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.fixed64(number, value.to_bits());
    }

    pub(super) fn fixed64(&mut self, number: u32, value: u64) {
        self.tag(number, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn text(&mut self, number: u32, value: &str) {
        self.tag(number, LENGTH_DELIMITED);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }

    /// Appends a nested message with the fields that `fill` adds.
    #[inline]
    pub(super) fn message(&mut self, number: u32, fill: impl FnOnce(&mut Self)) {
        self.tag(number, LENGTH_DELIMITED);
        self.0.push(0);
        let start = self.0.len();
        fill(self);
        self.set_length(start);
    }

    /// Stores the length of the bytes since `start` in the one byte reserved before them. Nearly all messages fit; a
    /// longer message is moved to make room for more length bytes.
    #[inline]
    fn set_length(&mut self, start: usize) {
        let length = self.0.len() - start;
        match u8::try_from(length) {
            Ok(length @ ..0x80) => self.0[start - 1] = length,
            _ => self.set_long_length(start, length),
        }
    }

    #[cold]
    fn set_long_length(&mut self, start: usize, length: usize) {
        let mut prefix = Self::default();
        prefix.varint(length as u64);
        self.0.splice(start - 1..start, prefix.0);
    }

    #[inline]
    fn tag(&mut self, number: u32, kind: u32) {
        self.varint(u64::from(number << 3 | kind));
    }

    /// Appends seven bits at a time, lowest first; the top bit marks that more bytes follow.
    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of protobuf's own guide to its encoding.
    #[test]
    fn the_encoding_guide_has_the_same_bytes() {
        let mut buffer = MessageBuffer::default();
        buffer.uint(1, 150);
        buffer.text(2, "testing");
        buffer.message(3, |inner| inner.uint(1, 150));
        buffer.int(1, -2);
        let negative = b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let expected =
            [b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01".as_slice(), negative].concat();
        assert_eq!(buffer.bytes(), expected);
    }

    #[test]
    fn numbers_of_every_length_are_read_back() {
        for value in (0..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) | 1]) {
            let mut buffer = MessageBuffer::default();
            buffer.varint(value);
            let groups = buffer.bytes().iter().rev();
            let read = groups.fold(0u64, |read, byte| read << 7 | u64::from(byte & 0x7f));
            assert_eq!(read, value);
            let (last, others) = buffer.bytes().split_last().unwrap();
            assert!(*last < 0x80 && others.iter().all(|byte| *byte >= 0x80), "{value}");
            assert!(*last > 0 || value == 0, "{value}");
        }
    }

    #[test]
    fn doubles_are_little_endian() {
        let mut buffer = MessageBuffer::default();
        buffer.double(44, 1.0);
        assert_eq!(buffer.bytes(), b"\xe1\x02\0\0\0\0\0\0\xf0\x3f");
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for (length, prefix) in [
            (0, b"\x0a\x00".as_slice()),
            (127, b"\x0a\x7f"),
            (128, b"\x0a\x80\x01"),
            (16_383, b"\x0a\xff\x7f"),
            (16_384, b"\x0a\x80\x80\x01"),
        ] {
            let body = vec![7; length];
            let mut buffer = MessageBuffer::default();
            buffer.message(1, |inner| inner.0.extend_from_slice(&body));
            assert_eq!(buffer.bytes(), [prefix, &body].concat(), "{length}");
        }
    }
}
