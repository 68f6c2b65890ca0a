//! Integer arithmetic in 64 bits; results are then wrapped to their own width.
//!
//! This equals arithmetic in the elements' own width: sums, products and left shifts do not depend on the upper bits,
//! quotients are in range except for one that wraps around, and right shifts bring in the sign or zero extension.

/// Implements [`Number`](super::value::Number) and [`Shift`](super::value::Shift).
macro_rules! integers {
    ($($name:ident),*) => {$(
        impl Number for $name {
            const ONE: Self = 1;

            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            fn abs(self) -> Self {
                if self < Self::default() { self.wrapping_neg() } else { self }
            }
            fn floor(self) -> Self {
                self
            }
            fn ceil(self) -> Self {
                self
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            /// Divides, rounding down; division by 0 gives 0.
            fn div(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let (quotient, rest) = (self.wrapping_div(other), self.wrapping_rem(other));
                let zero = Self::default();
                if rest != 0 && (rest < zero) != (other < zero) { quotient.wrapping_sub(1) } else { quotient }
            }
            /// Returns the remainder with the sign of the divisor; division by 0 gives 0.
            fn rem(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let (rest, zero) = (self.wrapping_rem(other), Self::default());
                if rest != 0 && (rest < zero) != (other < zero) { rest.wrapping_add(other) } else { rest }
            }
            /// Raises to a power by squaring. A negative power of anything other than 1 and -1 is a fraction, and
            /// becomes 0.
            fn pow(self, exponent: Self) -> Self {
                let negative = exponent < Self::default();
                if negative && self != 1 && self.wrapping_add(1) != 0 {
                    return 0;
                }
                // An odd power of 1 or -1 is the number itself.
                let mut left = if negative { exponent & 1 } else { exponent };
                let (mut power, mut base): (Self, Self) = (1, self);
                while left > 0 {
                    if left & 1 == 1 {
                        power = power.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    left >>= 1;
                }
                power
            }
            fn fma(self, factor: Self, summand: Self) -> Self {
                self.wrapping_mul(factor).wrapping_add(summand)
            }
        }

        impl Shift for $name {
            fn shl(self, by: Self) -> Self {
                u32::try_from(by).ok().and_then(|by| self.checked_shl(by)).unwrap_or(0)
            }
            fn shr(self, by: Self) -> Self {
                let by = u32::try_from(by).ok().filter(|&by| by < 64);
                // A shift by 64 would overflow, so it is done in two steps.
                by.map_or(self >> 63 >> 1, |by| self >> by)
            }
        }
    )*};
}
pub(super) use integers;
