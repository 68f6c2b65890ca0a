//! Initial values of a tensor.

use std::sync::Arc;

use crate::dtype::{DType, OutOfRange};

/// Initial values of a tensor. Their bytes are generated part by part, when they are written.
#[derive(Clone, Debug)]
pub(crate) enum Init {
    /// No values: nothing is written.
    Empty,
    /// Unknown values, read back in a context without data. Writing them takes simulated time.
    Absent,
    /// The same value for every element.
    Full(f64),
    /// The values `start`, `start + step`, …
    Arange { start: f64, step: f64 },
    /// Uniform random values from 0 to 1, determined by the seed.
    Rand { seed: u64 },
    /// The bytes of all elements.
    Data(Arc<Vec<u8>>),
}

impl Init {
    pub(crate) fn is_written(&self) -> bool {
        !matches!(self, Self::Empty)
    }

    /// Converts the values of `count` elements to another type.
    pub(crate) fn converted(self, from: DType, to: DType, count: u64) -> Result<Self, OutOfRange> {
        let convert = |element: &[u8], bytes: &mut Vec<u8>| to.encode(from.decode(element), bytes);
        let mut bytes = Vec::new();
        let mut converted = Vec::new();
        match self {
            Self::Empty | Self::Absent => return Ok(self),
            Self::Full(value) => {
                from.encode(value, &mut bytes)?;
                convert(&bytes, &mut converted)?;
                return Ok(Self::Full(from.decode(&bytes)));
            }
            _ => self.fill(from, 0, count, &mut bytes)?,
        }
        for element in bytes.chunks_exact(from.width()) {
            convert(element, &mut converted)?;
        }
        Ok(Self::Data(Arc::new(converted)))
    }

    /// Appends the bytes of `count` elements, starting at index `first`.
    pub(crate) fn fill(
        &self,
        dtype: DType,
        first: u64,
        count: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), OutOfRange> {
        let width = dtype.width();
        match self {
            Self::Empty => {
                let more = usize::try_from(count).expect("it fits memory") * width;
                bytes.resize(bytes.len() + more, 0);
            }
            Self::Absent => unreachable!("a context without data makes no bytes"),
            Self::Data(data) => {
                let place =
                    |element: u64| usize::try_from(element).expect("it is in memory") * width;
                bytes.extend_from_slice(&data[place(first)..place(first + count)]);
            }
            Self::Full(value) => {
                let start = bytes.len();
                dtype.encode(*value, bytes)?;
                let element = bytes.split_off(start);
                let count = usize::try_from(count).expect("it fits memory");
                match element[..] {
                    [first, ref rest @ ..] if rest.iter().all(|&byte| byte == first) => {
                        bytes.resize(start + count * width, first);
                    }
                    _ => bytes.extend_from_slice(&element.repeat(count)),
                }
            }
            _ => {
                for element in first..first + count {
                    dtype.encode(self.value(element), bytes)?;
                }
            }
        }
        Ok(())
    }

    fn value(&self, element: u64) -> f64 {
        match self {
            Self::Arange { start, step } => start + step * element as f64,
            Self::Rand { seed } => uniform(*seed, element),
            Self::Empty | Self::Absent | Self::Full(_) | Self::Data(_) => {
                unreachable!("it has no formula")
            }
        }
    }
}

/// Returns a number from 0 to 1 for each seed and element.
pub fn uniform(seed: u64, element: u64) -> f64 {
    random_bits(seed, element) as f64 / u64::MAX as f64
}

/// Returns 64 random bits for each seed and element: output `element` of Sebastiano Vigna's `SplitMix64`. It can be
/// computed for any position, so that contents do not depend on the order of generation.
pub fn random_bits(seed: u64, element: u64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = seed.wrapping_add(element.wrapping_add(1).wrapping_mul(STEP));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bits_are_the_published_sequence() {
        // The first outputs for seed 1234567, as listed for the reference implementation.
        assert_eq!(random_bits(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(random_bits(1_234_567, 1), 3_203_168_211_198_807_973);
    }
}
