//! Element types of tensors, and conversion of numbers to bytes and back.
//!
//! Bytes are little-endian. [`DType::encode`] and [`DType::decode`] convert through `f64`, for computed values
//! (fills, ranges, random numbers); [`Element`] and [`Scalar`] convert Rust numbers exactly.
//!
//! ```
//! use cubeyard_runtime::dtype::{DType, Element};
//!
//! let dtype: DType = "fp8_e4m3".parse()?;
//! let mut bytes = Vec::new();
//! dtype.encode(0.3, &mut bytes)?;
//! assert_eq!(bytes, [0x2a]);
//! assert_eq!(dtype.decode(&bytes), 0.3125);
//!
//! assert_eq!(i16::slice_to_bytes(&[1, -2]), [1, 0, 0xfe, 0xff]);
//!
//! let error = "float16".parse::<DType>().unwrap_err();
//! assert!(error.to_string().ends_with("found `float16`; the nearest is `f16`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod element;
mod float;
mod scalar;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use cubeyard_yaml::NoSuchName;
use thiserror::Error;

pub use element::Element;
pub use float::FloatFormat;
use float::{BF16, E4M3, E5M2, F16};
pub use scalar::Scalar;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// 4 exponent bits, 3 mantissa bits, no infinities, at most 448: PyTorch's `float8_e4m3fn`.
    Fp8E4m3,
    /// 5 exponent bits, 2 mantissa bits, infinities as in IEEE 754: PyTorch's `float8_e5m2`.
    Fp8E5m2,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// One byte, 0 or 1.
    Bool,
}

/// A number that an integer type or bool cannot represent. Choose another number or a wider type.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "{value} does not fit in {dtype}, which ranges from {least} to {greatest}{}",
    if value.whole().is_none() { " in whole numbers" } else { "" }
)]
pub struct OutOfRange {
    /// The number given.
    pub value: Scalar,
    /// The type that cannot represent the number.
    pub dtype: DType,
    /// Least value of the type.
    pub least: i128,
    /// Greatest value of the type.
    pub greatest: i128,
}

impl DType {
    /// All element types.
    pub const ALL: [Self; 15] = [
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::Fp8E4m3,
        Self::Fp8E5m2,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
    ];

    /// Returns the size of an element in bytes.
    pub const fn size(self) -> u64 {
        match self {
            Self::Fp8E4m3 | Self::Fp8E5m2 | Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Returns the name used in files and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Fp8E4m3 => "fp8_e4m3",
            Self::Fp8E5m2 => "fp8_e5m2",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
        }
    }

    /// Returns the format of a float of at most 16 bits.
    pub const fn float_format(self) -> Option<FloatFormat> {
        Some(match self {
            Self::F16 => F16,
            Self::Bf16 => BF16,
            Self::Fp8E4m3 => E4M3,
            Self::Fp8E5m2 => E5M2,
            _ => return None,
        })
    }

    /// Returns whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        self.wholes().is_none()
    }

    /// Returns the least and the greatest number of an integer type or bool.
    pub(crate) const fn wholes(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::I8 => (i8::MIN as i128, i8::MAX as i128),
            Self::I16 => (i16::MIN as i128, i16::MAX as i128),
            Self::I32 => (i32::MIN as i128, i32::MAX as i128),
            Self::I64 => (i64::MIN as i128, i64::MAX as i128),
            Self::U8 => (0, u8::MAX as i128),
            Self::U16 => (0, u16::MAX as i128),
            Self::U32 => (0, u32::MAX as i128),
            Self::U64 => (0, u64::MAX as i128),
            Self::Bool => (0, 1),
            _ => return None,
        })
    }

    /// Appends the bytes of the element nearest to `value`.
    ///
    /// Floats are rounded once, to nearest, ties to even. On overflow they become infinite, or NaN in `fp8_e4m3`, which
    /// has no infinities, as in PyTorch. Integers are truncated; values out of range and NaN are errors. A bool is true
    /// for every value other than zero.
    pub fn encode(self, value: f64, bytes: &mut Vec<u8>) -> Result<(), OutOfRange> {
        match self {
            Self::F16 => bytes.extend(F16.encode(value).to_le_bytes()),
            Self::Bf16 => bytes.extend(BF16.encode(value).to_le_bytes()),
            Self::Fp8E4m3 => bytes.push(E4M3.encode(value).to_le_bytes()[0]),
            Self::Fp8E5m2 => bytes.push(E5M2.encode(value).to_le_bytes()[0]),
            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
            Self::F32 => bytes.extend((value as f32).to_le_bytes()),
            Self::F64 => bytes.extend(value.to_le_bytes()),
            Self::Bool => bytes.push(u8::from(value != 0.0)),
            _ => {
                // In two's complement, the lower bytes of the wide number are the narrow number.
                let wide = self.integer(value)?.to_le_bytes();
                bytes.extend_from_slice(&wide[..self.width()]);
            }
        }
        Ok(())
    }

    fn integer(self, value: f64) -> Result<i128, OutOfRange> {
        let (least, greatest) = self.wholes().expect("all other types are converted before");
        // The conversion saturates and turns NaN into 0, hence the second condition.
        #[expect(clippy::cast_possible_truncation, reason = "the fraction goes")]
        let whole = value as i128;
        if (least..=greatest).contains(&whole) && !value.is_nan() {
            return Ok(whole);
        }
        Err(OutOfRange { value: value.into(), dtype: self, least, greatest })
    }

    /// Returns the value of an element. 64-bit integers beyond 2⁵³ are rounded; [`Element`] converts them exactly.
    ///
    /// # Panics
    ///
    /// If the length is not [`size`](Self::size).
    pub fn decode(self, bytes: &[u8]) -> f64 {
        assert_eq!(bytes.len(), self.width(), "an element of {self} has so many bytes");
        match self {
            Self::F16 => F16.decode(u16::from_bytes(bytes)),
            Self::Bf16 => BF16.decode(u16::from_bytes(bytes)),
            Self::Fp8E4m3 => E4M3.decode(bytes[0].into()),
            Self::Fp8E5m2 => E5M2.decode(bytes[0].into()),
            Self::F32 => f32::from_bytes(bytes).into(),
            Self::F64 => f64::from_bytes(bytes),
            Self::I8 => i8::from_bytes(bytes).into(),
            Self::I16 => i16::from_bytes(bytes).into(),
            Self::I32 => i32::from_bytes(bytes).into(),
            Self::I64 => i64::from_bytes(bytes) as f64,
            Self::U8 => u8::from_bytes(bytes).into(),
            Self::U16 => u16::from_bytes(bytes).into(),
            Self::U32 => u32::from_bytes(bytes).into(),
            Self::U64 => u64::from_bytes(bytes) as f64,
            Self::Bool => f64::from(bool::from_bytes(bytes)),
        }
    }

    /// Returns the size of an element in bytes, for slices.
    pub fn width(self) -> usize {
        usize::try_from(self.size()).expect("it is at most 8")
    }
}

impl FromStr for DType {
    type Err = NoSuchName;

    fn from_str(name: &str) -> Result<Self, NoSuchName> {
        NoSuchName::find(name, &Self::ALL, Self::name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
