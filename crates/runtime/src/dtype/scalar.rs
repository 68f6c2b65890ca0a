//! Scalars: numbers passed by value, with their type.

use std::fmt;

use super::{DType, OutOfRange};

/// A number: a truth value, a whole number or a float. It keeps its type from the host that passes it to a kernel until
/// it is combined with a tile there.
///
/// ```
/// use cubeyard_runtime::Scalar;
/// use cubeyard_runtime::dtype::DType;
///
/// let mut bytes = Vec::new();
/// Scalar::from(i64::MAX).encode(DType::I64, &mut bytes)?;
/// assert_eq!(bytes, i64::MAX.to_le_bytes());
/// let error = Scalar::from(0.5).encode(DType::I8, &mut bytes).unwrap_err();
/// assert_eq!(error.to_string(), "0.5 does not fit in i8, which ranges from -128 to 127 in whole numbers");
/// # Ok::<(), cubeyard_runtime::dtype::OutOfRange>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A whole number: any 64-bit integer, signed or unsigned, and more.
    Int(i128),
    /// A 64-bit float.
    Float(f64),
}

impl Scalar {
    /// Returns the number as a float, if that is exact.
    pub fn float(self) -> Option<f64> {
        let near = self.nearest();
        let is_exact = !matches!(self, Self::Int(whole) if exact(near) != Some(whole));
        is_exact.then_some(near)
    }

    /// Returns the nearest 64-bit float.
    pub fn nearest(self) -> f64 {
        match self {
            Self::Bool(truth) => u8::from(truth).into(),
            Self::Int(whole) => whole as f64,
            Self::Float(value) => value,
        }
    }

    /// Returns the number as a whole number, if it has no fraction and at most 127 bits.
    pub fn whole(self) -> Option<i128> {
        match self {
            Self::Bool(truth) => Some(truth.into()),
            Self::Int(whole) => Some(whole),
            Self::Float(value) => exact(value),
        }
    }

    /// Appends the bytes of the number as an element of a type.
    ///
    /// For floats, the number is rounded once, to nearest, ties to even; on overflow it becomes infinity or NaN, as
    /// described at [`DType::encode`]. Integers and bools accept whole numbers in their range; other numbers are
    /// errors.
    pub fn encode(self, dtype: DType, bytes: &mut Vec<u8>) -> Result<(), OutOfRange> {
        let Some((least, greatest)) = dtype.wholes() else {
            return dtype.encode(self.rounded(dtype), bytes);
        };
        let whole = self.whole().filter(|whole| (least..=greatest).contains(whole));
        let whole = whole.ok_or(OutOfRange { value: self, dtype, least, greatest })?;
        // In two's complement, the lower bytes of the wide number are the narrow number.
        bytes.extend_from_slice(&whole.to_le_bytes()[..dtype.width()]);
        Ok(())
    }

    /// Returns a float that a float type rounds in the same way as the number itself.
    fn rounded(self, dtype: DType) -> f64 {
        match self {
            Self::Int(whole) if dtype != DType::F64 => odd(whole),
            _ => self.nearest(),
        }
    }
}

/// Returns the whole number that a float represents, if it has at most 127 bits.
fn exact(value: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "without a fraction, and within its range")]
    let whole = || value as i128;
    (value.fract() == 0.0 && value.abs() < 2f64.powi(127)).then(whole)
}

/// Rounds a whole number to odd: truncated, with the last bit set if bits were lost, so that it can be rounded once
/// more.
fn odd(whole: i128) -> f64 {
    let magnitude = whole.unsigned_abs();
    let lost = (128 - f64::MANTISSA_DIGITS).saturating_sub(magnitude.leading_zeros());
    let kept = magnitude >> lost;
    let kept = kept | u128::from(kept << lost != magnitude);
    let near = (kept << lost) as f64;
    if whole < 0 { -near } else { near }
}

/// Formats the number alone, e.g. `2.5`.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(truth) => truth.fmt(f),
            Self::Int(whole) => whole.fmt(f),
            Self::Float(value) => value.fmt(f),
        }
    }
}

impl From<bool> for Scalar {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

macro_rules! whole {
    ($($name:ty),*) => {$(
        impl From<$name> for Scalar {
            fn from(whole: $name) -> Self {
                Self::Int(whole.into())
            }
        }
    )*};
}

whole!(i32, i64, u32, u64);

impl From<usize> for Scalar {
    fn from(whole: usize) -> Self {
        Self::Int(whole as i128)
    }
}

impl From<f32> for Scalar {
    fn from(value: f32) -> Self {
        Self::Float(value.into())
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(scalar: impl Into<Scalar>, dtype: DType) -> Vec<u8> {
        let mut bytes = Vec::new();
        scalar.into().encode(dtype, &mut bytes).unwrap();
        bytes
    }

    /// A whole number converted to `f32` was first a 64-bit float, so a value just above a tie became the tie.
    #[test]
    fn whole_numbers_are_rounded_once() {
        let tie = (1_i128 << 60) + (1 << 36);
        for (whole, expected) in [
            (tie, 2f32.powi(60)),
            (tie + 1, 2f32.powi(60).next_up()),
            (tie - 1, 2f32.powi(60)),
            (-tie - 1, -2f32.powi(60).next_up()),
            ((1 << 24) + 1, 2f32.powi(24)),
        ] {
            assert_eq!(encoded_int(whole, DType::F32), expected.to_le_bytes(), "{whole}");
        }
        assert_eq!(encoded_int((1 << 53) + 1, DType::F64), 2f64.powi(53).to_le_bytes());
        assert_eq!(encoded_int((1 << 53) + 3, DType::F64), (2f64.powi(53) + 4.0).to_le_bytes());
        assert_eq!(encoded_int(65520, DType::F16), [0x00, 0x7c]);
    }

    fn encoded_int(whole: i128, dtype: DType) -> Vec<u8> {
        let mut bytes = Vec::new();
        Scalar::Int(whole).encode(dtype, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn integers_hold_whole_numbers_of_their_range_from_both_sides() {
        assert_eq!(encoded(u64::MAX, DType::U64), u64::MAX.to_le_bytes());
        assert_eq!(encoded(i64::MIN, DType::I64), i64::MIN.to_le_bytes());
        assert_eq!(encoded(-128, DType::I8), [0x80]);
        assert_eq!(encoded(255.0, DType::U8), [0xff]);
        assert_eq!(encoded(-0.0, DType::U8), [0]);
        assert_eq!(encoded(true, DType::I16), [1, 0]);
        assert_eq!(encoded(1.0, DType::Bool), [1]);
        let mut refused = 0;
        for (scalar, dtype) in [
            (Scalar::from(128), DType::I8),
            (Scalar::from(-129), DType::I8),
            (Scalar::from(-1), DType::U64),
            (Scalar::from(u64::MAX), DType::I64),
            (Scalar::Int(1 << 64), DType::U64),
            (Scalar::from(0.5), DType::I32),
            (Scalar::from(2f64.powi(63)), DType::I64),
            (Scalar::from(f64::NAN), DType::I32),
            (Scalar::from(f64::INFINITY), DType::U64),
            (Scalar::from(2), DType::Bool),
            (Scalar::from(-1), DType::Bool),
        ] {
            let mut bytes = vec![7];
            let error = scalar.encode(dtype, &mut bytes).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{scalar} does not fit in {dtype}, which ranges from "))
            );
            assert_eq!(bytes, [7]);
            refused += 1;
        }
        assert_eq!(refused, 11);
    }

    #[test]
    fn a_sign_of_zero_stays_where_the_type_has_one() {
        assert_eq!(encoded(-0.0, DType::F16), [0x00, 0x80]);
        assert_eq!(encoded(0, DType::F16), [0x00, 0x00]);
    }

    #[test]
    fn numbers_are_floats_or_whole_only_where_that_is_exact() {
        assert_eq!(Scalar::from((1_i64 << 53) + 1).float(), None);
        assert_eq!(Scalar::from(1_i64 << 53).float(), Some(2f64.powi(53)));
        assert_eq!(Scalar::Int(i128::MAX).float(), None);
        assert_eq!(Scalar::from(2.5).whole(), None);
        assert_eq!(Scalar::from(f64::NAN).whole(), None);
        assert_eq!(Scalar::from(2f64.powi(127)).whole(), None);
        assert_eq!(Scalar::from(-3.0).whole(), Some(-3));
    }
}
