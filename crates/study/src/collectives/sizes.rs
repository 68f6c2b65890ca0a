//! Sizes of a sweep: `256:64M`, `256:64M:4`, or a single size.

use std::str::FromStr;

use cubeyard_memory::Bytes;
use thiserror::Error;

/// Maximum number of sizes.
const MOST: usize = 64;
/// Maximum size in bytes; it exceeds the memory of a SIP.
const LONGEST: u64 = 1 << 40;

/// Geometric sequence of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// First size, in bytes.
    pub from: u64,
    /// Upper limit of the sizes, in bytes.
    pub to: u64,
    /// Factor between consecutive sizes.
    pub factor: u64,
}

/// Error of a malformed sequence of sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadSizes {
    /// The text is not of the form `FROM:TO` or `FROM:TO:FACTOR`.
    #[error("expected FROM:TO or FROM:TO:FACTOR, such as 256:64M or 1K:1M:4; found `{0}`")]
    Form(String),
    /// A part is not a valid size.
    #[error("expected a number of bytes from 1 to 1T, such as 256, 64K or 1M; found `{0}`")]
    Size(String),
    /// The factor is not a whole number from 2 to 1024.
    #[error("expected a whole factor from 2 to 1024; found `{0}`")]
    Factor(String),
    /// The last size is less than the first.
    #[error("expected a last size of at least the first, {from}; found {to}")]
    Backwards {
        /// First size, in bytes.
        from: u64,
        /// Last size, in bytes.
        to: u64,
    },
}

impl FromStr for Sizes {
    type Err = BadSizes;

    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let parts: Vec<_> = text.split(':').collect();
        let (from, to, factor) = match parts[..] {
            [one] if !one.is_empty() => (size(one)?, size(one)?, 2),
            [from, to] => (size(from)?, size(to)?, 2),
            [from, to, by] => (size(from)?, size(to)?, factor(by)?),
            _ => return Err(BadSizes::Form(text.to_owned())),
        };
        if from > to {
            return Err(BadSizes::Backwards { from, to });
        }
        Ok(Self { from, to, factor })
    }
}

impl Sizes {
    /// Returns all sizes in ascending order.
    pub fn all(self) -> Vec<u64> {
        let next = |size: &u64| size.checked_mul(self.factor).filter(|size| *size <= self.to);
        std::iter::successors(Some(self.from), next).take(MOST).collect()
    }
}

fn size(text: &str) -> Result<u64, BadSizes> {
    let bytes = Bytes::read(text).map(Bytes::get).filter(|bytes| (1..=LONGEST).contains(bytes));
    bytes.ok_or_else(|| BadSizes::Size(text.to_owned()))
}

fn factor(text: &str) -> Result<u64, BadSizes> {
    let factor = text.parse().ok().filter(|factor| (2..=1024).contains(factor));
    factor.ok_or_else(|| BadSizes::Factor(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<u64> {
        text.parse::<Sizes>().unwrap().all()
    }

    #[test]
    fn sizes_go_by_factors_from_the_first() {
        assert_eq!(all("256:1K"), [256, 512, 1024]);
        assert_eq!(all("1k:1M:32"), [1 << 10, 1 << 15, 1 << 20]);
        assert_eq!(all("3:20"), [3, 6, 12]);
        assert_eq!(all("64KiB"), [64 << 10]);
        assert_eq!(all("1:1T").len(), 41);
    }

    #[test]
    fn what_are_no_sizes_is_refused() {
        for text in
            ["", ":", "1:", "0:4", "1:2:3:4", "4:1", "1:2:1", "1:2:x", "-1:4", "1:2T", "1e3"]
        {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
