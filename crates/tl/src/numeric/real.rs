//! Float arithmetic.
//!
//! Roots, rounding and the four basic operations are exactly specified, so they come from the standard library. Its
//! exponentials and similar functions depend on the system, and it has no error function; `libm` is the same
//! everywhere.

/// Implements [`Ordered`](super::value::Ordered), [`Number`](super::value::Number) and
/// [`Real`](super::value::Real) with functions of `libm`.
macro_rules! reals {
    ($($name:ident: $pow:ident, $($function:ident $of_libm:ident),*;)*) => {$(
        impl Ordered for $name {
            fn is_nan(self) -> bool {
                $name::is_nan(self)
            }
        }

        impl Number for $name {
            const ONE: Self = 1.0;

            fn neg(self) -> Self {
                -self
            }
            fn abs(self) -> Self {
                $name::abs(self)
            }
            fn floor(self) -> Self {
                $name::floor(self)
            }
            fn ceil(self) -> Self {
                $name::ceil(self)
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            /// Returns the remainder like Python's `%`: with the sign of the divisor, even for zero.
            fn rem(self, other: Self) -> Self {
                let rest = self % other;
                if rest == 0.0 {
                    (0.0 as $name).copysign(other)
                } else if (rest < 0.0) != (other < 0.0) {
                    rest + other
                } else {
                    rest
                }
            }
            fn pow(self, other: Self) -> Self {
                libm::$pow(self, other)
            }
            fn fma(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }
        }

        impl Real for $name {
            $(fn $function(self) -> Self {
                libm::$of_libm(self)
            })*
            fn sqrt(self) -> Self {
                $name::sqrt(self)
            }
        }
    )*};
}
pub(super) use reals;
