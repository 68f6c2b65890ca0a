//! What integers do: in 64 bits, after which they are wrapped to their own width.
//!
//! That is the same as in their own width. Sums, products and shifts up do not look at upper bits, quotients
//! are in range but for one that wraps, and shifts down bring in what the number was extended with.

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
            /// Rounded down; by 0 it is 0.
            fn div(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let (quotient, rest) = (self.wrapping_div(other), self.wrapping_rem(other));
                let zero = Self::default();
                if rest != 0 && (rest < zero) != (other < zero) { quotient.wrapping_sub(1) } else { quotient }
            }
            /// With the sign of the divisor; by 0 it is 0.
            fn rem(self, other: Self) -> Self {
                if other == 0 {
                    return 0;
                }
                let (rest, zero) = (self.wrapping_rem(other), Self::default());
                if rest != 0 && (rest < zero) != (other < zero) { rest.wrapping_add(other) } else { rest }
            }
            /// By squaring. To a negative power only 1 and -1 are not a fraction, which goes.
            fn pow(self, exponent: Self) -> Self {
                let negative = exponent < Self::default();
                if negative && self != 1 && self.wrapping_add(1) != 0 {
                    return 0;
                }
                // Of 1 and -1 any odd power is the first one.
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
                // By one bit more than can be asked for at once.
                by.map_or(self >> 63 >> 1, |by| self >> by)
            }
        }
    )*};
}
pub(super) use integers;
