//! Host types in which elements are computed, and their operations.

use std::ops::{BitAnd, BitOr, BitXor, Not};

use super::{integer, real};

/// The elements of a tile in the host type used for computing. Each is a number of the tile's element type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    /// Floats of at most 32 bits.
    Single(Vec<f32>),
    /// Floats of 64 bits.
    Double(Vec<f64>),
    /// Signed integers of any width.
    Signed(Vec<i64>),
    /// Unsigned integers of any width.
    Unsigned(Vec<u64>),
    /// Booleans, one per element.
    Truth(Vec<bool>),
}

/// Applies one expression to elements of any type.
macro_rules! each {
    ($data:expr, $values:ident => $result:expr) => {
        match $data {
            Data::Single($values) => Data::Single($result),
            Data::Double($values) => Data::Double($result),
            Data::Signed($values) => Data::Signed($result),
            Data::Unsigned($values) => Data::Unsigned($result),
            Data::Truth($values) => Data::Truth($result),
        }
    };
}
pub(super) use each;

/// Applies one expression to two operands of the same type, of any type.
macro_rules! each_pair {
    ($a:expr, $b:expr, ($x:ident, $y:ident) => $result:expr) => {
        match ($a, $b) {
            (Data::Single($x), Data::Single($y)) => Data::Single($result),
            (Data::Double($x), Data::Double($y)) => Data::Double($result),
            (Data::Signed($x), Data::Signed($y)) => Data::Signed($result),
            (Data::Unsigned($x), Data::Unsigned($y)) => Data::Unsigned($result),
            (Data::Truth($x), Data::Truth($y)) => Data::Truth($result),
            _ => unreachable!("operands of different types were refused"),
        }
    };
}
pub(super) use each_pair;

/// Elements that have an order.
pub(super) trait Ordered: Copy + PartialOrd + Default {
    fn is_nan(self) -> bool {
        false
    }

    fn maximum(self, other: Self) -> Self {
        if self >= other || self.is_nan() { self } else { other }
    }

    fn minimum(self, other: Self) -> Self {
        if self <= other || self.is_nan() { self } else { other }
    }

    /// Returns whether the element displaces `best`, an earlier element, as the greatest.
    fn exceeds(self, best: Self) -> bool {
        !best.is_nan() && (self > best || self.is_nan())
    }

    /// Returns whether the element displaces `best`, an earlier element, as the least.
    fn falls_below(self, best: Self) -> bool {
        !best.is_nan() && (self < best || self.is_nan())
    }
}

/// Elements with arithmetic.
pub(super) trait Number: Ordered {
    const ONE: Self;

    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn pow(self, other: Self) -> Self;
    fn fma(self, factor: Self, summand: Self) -> Self;
}

/// Elements with real functions.
pub(super) trait Real: Number {
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn log(self) -> Self;
    fn log2(self) -> Self;
    fn sqrt(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;

    fn rsqrt(self) -> Self {
        Self::ONE.div(self.sqrt())
    }

    /// Uses exp(x) / (1 + exp(x)) below 0, since exp(-x) would overflow there.
    fn sigmoid(self) -> Self {
        let small = self.abs().neg().exp();
        let numerator = if self < Self::default() { small } else { Self::ONE };
        // NaN propagates through the denominator.
        numerator.div(Self::ONE.add(small))
    }
}

/// Elements with bitwise logic.
pub(super) trait Bits:
    Ordered + Not<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
}

/// Elements whose bits can be shifted.
pub(super) trait Shift: Bits {
    fn shl(self, by: Self) -> Self;
    fn shr(self, by: Self) -> Self;
}

impl Ordered for bool {}
impl Ordered for i64 {}
impl Ordered for u64 {}

impl Bits for bool {}
impl Bits for i64 {}
impl Bits for u64 {}

real::reals! {
    f32: powf, exp expf, exp2 exp2f, log logf, log2 log2f, tanh tanhf, erf erff, sin sinf, cos cosf;
    f64: pow, exp exp, exp2 exp2, log log, log2 log2, tanh tanh, erf erf, sin sin, cos cos;
}
integer::integers!(i64, u64);
