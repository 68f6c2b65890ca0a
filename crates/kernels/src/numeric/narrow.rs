//! Floats of at most 32 bits, held as `f32`: rounded to their format, and from and to its codes.
//!
//! [`DType::encode`] does the same from `f64`, an element at a time; these have no branches, so that they
//! can be done to many elements at once.

use cubeyard_runtime::dtype::DType;

const INFINITY: u32 = 0x7f80_0000;

/// A format, in terms of the bits of the `f32` that have its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// How many bits of the mantissa it has not.
    shift: u32,
    /// The least normal number, or 0 where what is below is spaced as in `f32`.
    least: u32,
    /// A number whose neighbours are as far apart as the numbers below the least normal one.
    anchor: f32,
    /// The greatest number.
    greatest: u32,
    /// What is beyond.
    overflow: u32,
    /// What is not a number.
    nan: u32,
    /// What numbers are multiplied with to have the exponent field that they have in `f32`.
    scale: f32,
    /// The bit of the sign in a code.
    sign: u16,
    /// The code of infinity, or where there is none of what is not a number.
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

const F16: Format = Format {
    shift: 13,
    least: 0x3880_0000,
    anchor: 0.5,
    greatest: 0x477f_e000,
    scale: power(-112),
    special: 0x7c00,
    ..F32
};

const BF16: Format = Format { shift: 16, greatest: 0x7f7f_0000, special: 0x7f80, ..F32 };

const E4M3: Format = Format {
    shift: 20,
    least: 0x3c80_0000,
    anchor: power(14),
    greatest: 0x43e0_0000,
    overflow: 0x7fc0_0000,
    nan: 0x7fc0_0000,
    scale: power(-120),
    sign: 0x80,
    special: 0x7f,
};

const E5M2: Format = Format {
    shift: 21,
    least: 0x3880_0000,
    anchor: power(7),
    greatest: 0x4760_0000,
    overflow: INFINITY,
    nan: 0x7fe0_0000,
    scale: power(-112),
    sign: 0x80,
    special: 0x7c,
};

/// A power of two that is a normal `f32`.
const fn power(exponent: i32) -> f32 {
    f32::from_bits((127 + exponent).cast_unsigned() << 23)
}

impl Format {
    /// The format of a type that is held as `f32`.
    pub(super) fn of(dtype: DType) -> Self {
        match dtype {
            DType::F16 => F16,
            DType::Bf16 => BF16,
            DType::Fp8E4m3 => E4M3,
            DType::Fp8E5m2 => E5M2,
            _ => F32,
        }
    }

    /// The number of the format nearest to a value, of two the even one.
    #[inline]
    pub(super) fn round(self, value: f32) -> f32 {
        let (sign, magnitude) = (value.to_bits() & 1 << 31, value.abs().to_bits());
        let (low, odd) = ((1 << self.shift) - 1, magnitude >> self.shift & 1);
        // One half less a bit, and the bit if what stays is odd: what is in the middle goes to the even one.
        let normal = (magnitude + (low >> 1) + (odd & low)) & !low;
        // Between the anchor and twice the anchor `f32` itself rounds as wanted.
        let small = ((value.abs() + self.anchor) - self.anchor).to_bits();
        let rounded = if magnitude < self.least { small } else { normal };
        let rounded = if rounded > self.greatest { self.overflow } else { rounded };
        f32::from_bits(if magnitude > INFINITY || rounded > INFINITY {
            self.nan
        } else {
            sign | rounded
        })
    }

    /// The number of a code. What is not a number keeps its bits.
    #[inline]
    pub(super) fn decode(self, code: u16) -> f32 {
        let (sign, magnitude) = (code & self.sign, code & (self.sign - 1));
        let bits = u32::from(magnitude) << self.shift;
        let value = if magnitude < self.special {
            (f32::from_bits(bits) * self.scale.recip()).to_bits()
        } else if self.overflow == INFINITY {
            // The exponent's field is full in both.
            INFINITY | bits
        } else {
            self.nan
        };
        f32::from_bits(if sign == 0 { value } else { value | 1 << 31 })
    }

    /// The code of a number of the format.
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
