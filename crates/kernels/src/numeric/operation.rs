//! The names of operations.

use std::fmt;

/// An enum of operations, all of them, and what they are called.
macro_rules! operations {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $operation:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $operation,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$operation,)*];

            /// What errors and files call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $text,)*
                }
            }

            /// The operation of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|operation| operation.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

operations!(
    /// Operations on each element. Unless said otherwise they are for floats only.
    Unary {
        /// The negative; of integers, too.
        Neg = "neg",
        /// Without the sign; of integers, too, where that of the least number is itself.
        Abs = "abs",
        /// e to this power.
        Exp = "exp",
        /// 2 to this power.
        Exp2 = "exp2",
        /// The natural logarithm.
        Log = "log",
        /// The logarithm to base 2.
        Log2 = "log2",
        /// The square root.
        Sqrt = "sqrt",
        /// 1 divided by the square root.
        Rsqrt = "rsqrt",
        /// 1 / (1 + exp(-x)).
        Sigmoid = "sigmoid",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// The sine.
        Sin = "sin",
        /// The cosine.
        Cos = "cos",
        /// Rounded down; integers stay as they are.
        Floor = "floor",
        /// Rounded up; integers stay as they are.
        Ceil = "ceil",
        /// At least 0; of integers, too.
        Relu = "relu",
        /// Every bit the other one, of integers and bools only.
        Not = "not",
    }
);

operations!(
    /// Operations on two elements. Unless said otherwise they are for floats and integers, not for bools.
    Binary {
        /// The sum.
        Add = "add",
        /// The difference.
        Sub = "sub",
        /// The product.
        Mul = "mul",
        /// The quotient; of integers rounded down, and 0 for a division by 0.
        Div = "div",
        /// What is left of the quotient rounded down, with the sign of the divisor; of integers 0 for a
        /// division by 0.
        Rem = "rem",
        /// The first to the power of the second.
        Pow = "pow",
        /// The greater one, or NaN if there is one; of bools, too.
        Maximum = "maximum",
        /// The smaller one, or NaN if there is one; of bools, too.
        Minimum = "minimum",
        /// Bits set in both, of integers and bools only.
        And = "and",
        /// Bits set in one of them, of integers and bools only.
        Or = "or",
        /// Bits set in exactly one of them, of integers and bools only.
        Xor = "xor",
        /// Bits shifted up, of integers only; 0 if by less than 0 or by the width or more.
        Shl = "shl",
        /// Bits shifted down with the sign, of integers only; 0 or -1 if by less than 0 or by the width or more.
        Shr = "shr",
        /// Whether they are equal: a bool, as all comparisons, which are for all types.
        Eq = "eq",
        /// Whether they are not equal.
        Ne = "ne",
        /// Whether the first is less.
        Lt = "lt",
        /// Whether the first is less or equal.
        Le = "le",
        /// Whether the first is greater.
        Gt = "gt",
        /// Whether the first is greater or equal.
        Ge = "ge",
    }
);

operations!(
    /// Operations on three elements.
    Ternary {
        /// The second where the first, a bool, is true, else the third; of any type.
        Where = "where",
        /// The first times the second plus the third, rounded once to what it is computed in; of floats and integers.
        Fma = "fma",
        /// The first, at least the second, at most the third, or NaN if there is one; of floats and integers.
        Clamp = "clamp",
    }
);

operations!(
    /// What is made of all elements along an axis.
    Reduce {
        /// The sum, of floats and integers, in the type of the elements; floats are rounded at the end.
        Sum = "sum",
        /// The greatest, or NaN if there is one.
        Max = "max",
        /// The least, or NaN if there is one.
        Min = "min",
        /// The index of the first of the greatest, or of the first NaN: an `i32`.
        Argmax = "argmax",
        /// The index of the first of the least, or of the first NaN: an `i32`.
        Argmin = "argmin",
        /// The product, of floats and integers, as the sum is.
        Prod = "prod",
        /// Bits set in an odd number of elements, of integers and bools only.
        Xor = "xor",
    }
);

operations!(
    /// What is made of the elements along an axis up to each, itself included, of floats and integers.
    Scan {
        /// Their sum; floats go on with what is not yet rounded.
        Cumsum = "cumsum",
        /// Their product; floats go on with what is not yet rounded.
        Cumprod = "cumprod",
    }
);

impl Binary {
    /// Whether the result is a bool.
    pub const fn compares(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }
}
