//! The functions of tiles and of expressions: documentation, name and operation of each, written once.
//!
//! Each macro of functions passes its list to another macro, which defines a function for each entry. [`numbers`]
//! converts the number types to operands.

/// Lists the functions of each element of one operand.
macro_rules! unary {
    ($define:ident) => {
        $define! {
            /// Negates each element.
            neg = Neg;
            /// Returns the absolute value of each element.
            abs = Abs;
            /// Returns e to the power of each element.
            exp = Exp;
            /// Returns 2 to the power of each element.
            exp2 = Exp2;
            /// Returns the natural logarithm of each element.
            log = Log;
            /// Returns the logarithm to base 2 of each element.
            log2 = Log2;
            /// Returns the square root of each element.
            sqrt = Sqrt;
            /// Returns 1 / sqrt(x) of each element.
            rsqrt = Rsqrt;
            /// Returns 1 / (1 + exp(-x)) of each element.
            sigmoid = Sigmoid;
            /// Returns the hyperbolic tangent of each element.
            tanh = Tanh;
            /// Returns the error function of each element.
            erf = Erf;
            /// Returns the sine of each element.
            sin = Sin;
            /// Returns the cosine of each element.
            cos = Cos;
            /// Rounds each element down.
            floor = Floor;
            /// Rounds each element up.
            ceil = Ceil;
            /// Returns max(x, 0) of each element.
            relu = Relu;
            /// Inverts every bit.
            not = Not;
        }
    };
}

/// Lists the functions of the elements of two operands.
macro_rules! binary {
    ($define:ident) => {
        $define! {
            /// Returns the elementwise sum.
            add = Add;
            /// Returns the elementwise difference.
            sub = Sub;
            /// Returns the elementwise product.
            mul = Mul;
            /// Returns the elementwise quotient.
            div = Div;
            /// Returns the remainder of the floor division.
            rem = Rem;
            /// Raises the first operand to the power of the second.
            pow = Pow;
            /// Returns the greater of two elements.
            maximum = Maximum;
            /// Returns the smaller of two elements.
            minimum = Minimum;
            /// Returns the bitwise and.
            and = And;
            /// Returns the bitwise or.
            or = Or;
            /// Returns the bitwise exclusive or.
            xor = Xor;
            /// Shifts the bits of the first operand left by the second.
            shl = Shl;
            /// Shifts the bits of the first operand right by the second.
            shr = Shr;
            /// Returns whether elements are equal.
            eq = Eq;
            /// Returns whether elements differ.
            ne = Ne;
            /// Returns whether the first operand is less than the second.
            lt = Lt;
            /// Returns whether the first operand is at most the second.
            le = Le;
            /// Returns whether the first operand is greater than the second.
            gt = Gt;
            /// Returns whether the first operand is at least the second.
            ge = Ge;
        }
    };
}

/// Lists the reductions along an axis: the name of the variant that removes the axis, and of the variant that keeps it.
macro_rules! reduce {
    ($define:ident) => {
        $define! {
            /// Sums the elements along an axis, or all elements if it is `None`.
            sum, sum_keep = Sum;
            /// Returns the greatest element along an axis, or of all if it is `None`.
            max, max_keep = Max;
            /// Returns the least element along an axis, or of all if it is `None`.
            min, min_keep = Min;
            /// Returns the index of the first greatest element along an axis, or among all in row-major order if it is `None`.
            argmax, argmax_keep = Argmax;
            /// Returns the index of the first least element along an axis, or among all in row-major order if it is `None`.
            argmin, argmin_keep = Argmin;
            /// Multiplies the elements along an axis, or all elements if it is `None`.
            prod, prod_keep = Prod;
            /// Returns the exclusive or of the elements along an axis, or of all if it is `None`.
            xor_sum, xor_sum_keep = Xor;
        }
    };
}

/// Implements the conversion from numbers to operands.
macro_rules! numbers {
    ($of:ident) => {
        $crate::functions::numbers!($of: cubeyard_runtime::Scalar, bool, i32, i64, u32, u64, f64);
    };
    ($of:ident: $($name:ty),*) => {$(
        impl From<$name> for $of<'_> {
            fn from(number: $name) -> Self {
                Self::Number(number.into())
            }
        }
    )*};
}

pub(crate) use {binary, numbers, reduce, unary};
