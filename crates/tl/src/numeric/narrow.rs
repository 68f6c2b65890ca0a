//! Floats of at most 32 bits, stored as `f32`: rounding to their format, encoding and decoding.
//!
//! [`DType::encode`] does the same from `f64`, one element at a time; these functions are branch-free, so that they
//! vectorise.

use cubeyard_runtime::dtype::DType;

const INFINITY: u32 = 0x7f80_0000;

/// A format, described by the bits of the `f32` that hold its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Difference in the number of mantissa bits from `f32`.
    shift: u32,
    /// The least normal number, or 0 if subnormals are spaced as in `f32`.
    least: u32,
    /// A number at which `f32` is spaced like the subnormals of the format.
    anchor: f32,
    /// The greatest finite number.
    greatest: u32,
    /// The result of an overflow.
    overflow: u32,
    /// The NaN of the format.
    nan: u32,
    /// Factor that moves the exponent from `f32` to the format's bias.
    scale: f32,
    /// The sign bit of a code.
    sign: u16,
    /// The code of infinity, or of NaN if the format has no infinity.
    special: u16,
}

const F32: Format = Format {
    shift: 0,
    least: 0,
    anchor: 0.0,
    greatest: 0x7f7f_ffff,
    overflow: INFINITY,
    nan: 0x7fc0_0000,
    scale: 1.0,
    sign: 0x8000,
    special: 0,
};

const F16: Format = Format::new(DType::F16);
const BF16: Format = Format::new(DType::Bf16);
const E4M3: Format = Format::new(DType::Fp8E4m3);
const E5M2: Format = Format::new(DType::Fp8E5m2);

/// Returns a power of two that is a normal `f32`.
const fn power(exponent: i32) -> f32 {
    f32::from_bits((127 + exponent).cast_unsigned() << 23)
}

/// Returns the maximum relative error of rounding to nearest; 0 for integers, which are exact.
pub fn rounding(dtype: DType) -> f64 {
    let bits = match dtype {
        DType::F64 => 53,
        _ if dtype.is_float() => 24 - Format::of(dtype).shift,
        _ => return 0.0,
    };
    0.5_f64.powi(bits.cast_signed())
}

impl Format {
    /// Derives the format of a type of at most 16 bits.
    const fn new(dtype: DType) -> Self {
        let format = dtype.float_format().expect("a float of at most 16 bits");
        let (shift, rebias) = (23 - format.mantissa as u32, 126 + format.least);
        let has_infinity = format.overflow != format.nan;
        let mantissa = format.nan & ((1 << format.mantissa) - 1);
        Self {
            shift,
            least: (rebias + 1).cast_unsigned() << 23,
            anchor: power(format.least + shift.cast_signed()),
            greatest: ((format.greatest as u32) << shift) + (rebias.cast_unsigned() << 23),
            overflow: if has_infinity { INFINITY } else { F32.nan },
            nan: if has_infinity { INFINITY | (mantissa as u32) << shift } else { F32.nan },
            scale: power(-rebias),
            sign: format.sign,
            special: format.overflow,
        }
    }

    /// Returns the format of a type that is stored as `f32`.
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F16 => F16,
            DType::Bf16 => BF16,
            DType::Fp8E4m3 => E4M3,
            DType::Fp8E5m2 => E5M2,
            _ => F32,
        }
    }

    /// Rounds to the nearest number of the format, ties to even.
    #[inline]
    pub(super) fn round(self, value: f32) -> f32 {
        let (sign, magnitude) = (value.to_bits() & 1 << 31, value.abs().to_bits());
        let (low, odd) = ((1 << self.shift) - 1, magnitude >> self.shift & 1);
        // Adds half a unit less one bit, plus one bit if the kept part is odd: ties go to even.
        let normal = (magnitude + (low >> 1) + (odd & low)) & !low;
        // Between the anchor and its double, `f32` addition itself rounds to the format's spacing.
        let small = ((value.abs() + self.anchor) - self.anchor).to_bits();
        let rounded = if magnitude < self.least { small } else { normal };
        let rounded = if rounded > self.greatest { self.overflow } else { rounded };
        f32::from_bits(if magnitude > INFINITY || rounded > INFINITY {
            self.nan
        } else {
            sign | rounded
        })
    }

    /// Decodes a code. NaNs keep their payload if the format has infinities.
    #[inline]
    pub(super) fn decode(self, code: u16) -> f32 {
        let (sign, magnitude) = (code & self.sign, code & (self.sign - 1));
        let bits = u32::from(magnitude) << self.shift;
        let value = if magnitude < self.special {
            (f32::from_bits(bits) * self.scale.recip()).to_bits()
        } else if self.overflow == INFINITY {
            // The exponent field is all ones in both.
            INFINITY | bits
        } else {
            self.nan
        };
        f32::from_bits(if sign == 0 { value } else { value | 1 << 31 })
    }

    /// Encodes a number of the format.
    #[inline]
    pub(super) fn encode(self, value: f32) -> u16 {
        let magnitude = value.abs().to_bits();
        let code = if magnitude < INFINITY {
            (value.abs() * self.scale).to_bits() >> self.shift
        } else {
            let field = u32::from(self.special);
            field | (magnitude & !INFINITY) >> self.shift & ((1 << (23 - self.shift)) - 1)
        };
        // No format here has more than 15 bits besides the sign.
        let code = (code & 0x7fff) as u16;
        if value.is_sign_negative() { code | self.sign } else { code }
    }
}
