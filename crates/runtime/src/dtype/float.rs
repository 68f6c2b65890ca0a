//! Floats of at most 16 bits: their formats, and conversion from and to `f64` with one rounding.
//!
//! `half` (2.7) drops 32 bits of an `f64` before it rounds, so a value just above a tie counts as the tie; also, it has
//! no fp8.

/// Bit layout of a float of at most 16 bits: sign, exponent and mantissa, from the highest bit on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Number of mantissa bits.
    pub mantissa: u16,
    /// Exponent of the least normal number, as a power of two.
    pub least: i32,
    /// Mask of the sign bit.
    pub sign: u16,
    /// Code of the greatest finite number; greater codes are infinite or NaN.
    pub greatest: u16,
    /// Code of infinity, or of NaN if the format has no infinity.
    pub overflow: u16,
    /// Code of NaN.
    pub nan: u16,
}

pub(super) const F16: FloatFormat = FloatFormat {
    mantissa: 10,
    least: -14,
    sign: 0x8000,
    greatest: 0x7bff,
    overflow: 0x7c00,
    nan: 0x7e00,
};

pub(super) const BF16: FloatFormat = FloatFormat {
    mantissa: 7,
    least: -126,
    sign: 0x8000,
    greatest: 0x7f7f,
    overflow: 0x7f80,
    nan: 0x7fc0,
};

pub(super) const E4M3: FloatFormat =
    FloatFormat { mantissa: 3, least: -6, sign: 0x80, greatest: 0x7e, overflow: 0x7f, nan: 0x7f };

pub(super) const E5M2: FloatFormat =
    FloatFormat { mantissa: 2, least: -14, sign: 0x80, greatest: 0x7b, overflow: 0x7c, nan: 0x7f };

impl FloatFormat {
    /// Rounds to the nearest number, ties to even, and returns its code.
    pub(super) fn encode(self, value: f64) -> u16 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        if value.is_nan() {
            return sign | self.nan;
        }
        sign | self.magnitude(value.abs())
    }

    fn magnitude(self, value: f64) -> u16 {
        // Far above the greatest number of every format; the codes below stay within 16 bits.
        if value >= 2f64.powi(129) {
            return self.overflow;
        }
        let power = exponent(value).max(self.least);
        // Exact, since the divisor is a power of two; the only rounding follows.
        let steps = (value / self.step(power)).round_ties_even();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^11")]
        let steps = steps as u32;
        // A normal number has one more step bit than mantissa bits, and that bit is 1: the addition carries it into the
        // exponent field. A carry from rounding has the same effect.
        let code =
            (u32::try_from(power - self.least).expect("it was raised") << self.mantissa) + steps;
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        if code > self.greatest { self.overflow } else { code }
    }

    /// Returns the number of a code.
    pub(super) fn decode(self, code: u16) -> f64 {
        let magnitude = code & (self.sign - 1);
        let value = if magnitude <= self.greatest {
            self.number(magnitude)
        } else if magnitude == self.overflow && self.overflow != self.nan {
            f64::INFINITY
        } else {
            f64::NAN
        };
        if code & self.sign == 0 { value } else { -value }
    }

    fn number(self, magnitude: u16) -> f64 {
        let (field, low) = (magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1));
        let hidden = if field == 0 { 0 } else { 1 << self.mantissa };
        let power = self.least + i32::from(field.saturating_sub(1));
        f64::from(hidden + low) * self.step(power)
    }

    /// Returns the distance between neighbours from 2 to this power upwards.
    fn step(self, power: i32) -> f64 {
        2f64.powi(power - i32::from(self.mantissa))
    }
}

/// Returns the greatest power of two that is at most `value`; for subnormals, a power below the range of all formats.
fn exponent(value: f64) -> i32 {
    let field = (value.to_bits() >> 52) & 0x7ff;
    i32::try_from(field).expect("it has 11 bits") - 1023
}
