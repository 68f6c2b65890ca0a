//! Conversions between element types.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "here is where they are meant: each says what becomes of what does not fit"
)]

use cubeyard_runtime::dtype::DType;

use super::value::Data;

/// Width of an integer type.
#[derive(Clone, Copy)]
pub(super) struct Width {
    /// Difference between 64 and the number of bits.
    missing: u32,
}

impl Width {
    pub(super) fn of(dtype: DType) -> Self {
        Self { missing: 64 - 8 * dtype.size() as u32 }
    }

    /// Wraps a signed number to the width.
    pub(super) fn signed(self, value: i64) -> i64 {
        value << self.missing >> self.missing
    }

    /// Wraps an unsigned number to the width.
    pub(super) fn unsigned(self, value: u64) -> u64 {
        value << self.missing >> self.missing
    }
}

/// Converts elements up to the final rounding or wrapping to the type.
pub(super) fn converted(data: &Data, dtype: DType) -> Data {
    match dtype {
        DType::F32 => Data::Single(singles(data)),
        DType::F16 | DType::Bf16 | DType::Fp8E4m3 | DType::Fp8E5m2 => {
            Data::Single(odd_singles(data))
        }
        DType::F64 => Data::Double(doubles(data)),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            Data::Signed(signed(data, Width::of(dtype)))
        }
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            Data::Unsigned(unsigned(data, Width::of(dtype)))
        }
        DType::Bool => Data::Truth(truths(data)),
    }
}

fn map<T: Copy, U>(values: &[T], convert: impl Fn(T) -> U) -> Vec<U> {
    values.iter().map(|&value| convert(value)).collect()
}

fn singles(data: &Data) -> Vec<f32> {
    match data {
        Data::Single(values) => values.clone(),
        Data::Double(values) => map(values, |value| value as f32),
        Data::Signed(values) => map(values, |value| value as f32),
        Data::Unsigned(values) => map(values, |value| value as f32),
        Data::Truth(values) => map(values, |value| u8::from(value).into()),
    }
}

/// Rounds to odd, so that a second rounding to fewer bits gives the same as rounding once.
fn odd_singles(data: &Data) -> Vec<f32> {
    match data {
        Data::Double(values) => map(values, |value| {
            let near = value as f32;
            odd(
                near,
                f64::from(near).total_cmp(&value).is_eq(),
                f64::from(near).abs() > value.abs(),
            )
        }),
        Data::Signed(values) => map(values, |value| odd_integer(value.into(), value as f32)),
        Data::Unsigned(values) => map(values, |value| odd_integer(value.into(), value as f32)),
        Data::Single(_) | Data::Truth(_) => singles(data),
    }
}

fn odd_integer(value: i128, near: f32) -> f32 {
    let back = near as i128;
    odd(near, back == value, back.abs() > value.abs())
}

/// Returns the neighbour of an inexact value whose last bit is odd: it lies on the same side of every tie.
fn odd(near: f32, exact: bool, away: bool) -> f32 {
    if exact || near.is_nan() {
        return near;
    }
    f32::from_bits((near.to_bits() - u32::from(away)) | 1)
}

fn doubles(data: &Data) -> Vec<f64> {
    match data {
        Data::Single(values) => map(values, f64::from),
        Data::Double(values) => values.clone(),
        Data::Signed(values) => map(values, |value| value as f64),
        Data::Unsigned(values) => map(values, |value| value as f64),
        Data::Truth(values) => map(values, |value| u8::from(value).into()),
    }
}

fn signed(data: &Data, width: Width) -> Vec<i64> {
    let (least, greatest) = (i64::MIN >> width.missing, i64::MAX >> width.missing);
    match data {
        Data::Single(values) => map(values, |value| (value as i64).clamp(least, greatest)),
        Data::Double(values) => map(values, |value| (value as i64).clamp(least, greatest)),
        Data::Signed(values) => values.clone(),
        Data::Unsigned(values) => map(values, |value| value as i64),
        Data::Truth(values) => map(values, i64::from),
    }
}

fn unsigned(data: &Data, width: Width) -> Vec<u64> {
    let greatest = u64::MAX >> width.missing;
    match data {
        Data::Single(values) => map(values, |value| (value as u64).min(greatest)),
        Data::Double(values) => map(values, |value| (value as u64).min(greatest)),
        Data::Signed(values) => map(values, |value| value as u64),
        Data::Unsigned(values) => values.clone(),
        Data::Truth(values) => map(values, u64::from),
    }
}

fn truths(data: &Data) -> Vec<bool> {
    match data {
        Data::Single(values) => map(values, |value| value != 0.0),
        Data::Double(values) => map(values, |value| value != 0.0),
        Data::Signed(values) => map(values, |value| value != 0),
        Data::Unsigned(values) => map(values, |value| value != 0),
        Data::Truth(values) => values.clone(),
    }
}
