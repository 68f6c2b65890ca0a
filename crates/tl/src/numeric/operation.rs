//! The enums of operations.

use std::fmt;

/// Defines an enum of operations with their names.
macro_rules! operations {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $operation:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $operation,)*
        }

        impl $name {
            /// All operations of this enum.
            pub const ALL: &[Self] = &[$(Self::$operation,)*];

            /// Returns the name used in errors and files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $text,)*
                }
            }

            /// Finds an operation by its name.
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
    /// Elementwise operations on one operand. For floats only, unless stated otherwise.
    Unary {
        /// Negation; also of integers.
        Neg = "neg",
        /// Absolute value; also of integers, where the least number is unchanged.
        Abs = "abs",
        /// e to the power of x.
        Exp = "exp",
        /// 2 to the power of x.
        Exp2 = "exp2",
        /// The natural logarithm.
        Log = "log",
        /// The logarithm to base 2.
        Log2 = "log2",
        /// The square root.
        Sqrt = "sqrt",
        /// 1 divided by the square root.
        Rsqrt = "rsqrt",
        /// The logistic function 1 / (1 + exp(-x)).
        Sigmoid = "sigmoid",
        /// The hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// The sine, in radians.
        Sin = "sin",
        /// The cosine, in radians.
        Cos = "cos",
        /// Rounding down; integers are unchanged.
        Floor = "floor",
        /// Rounding up; integers are unchanged.
        Ceil = "ceil",
        /// max(x, 0); also of integers.
        Relu = "relu",
        /// Bitwise complement, of integers and bools only.
        Not = "not",
    }
);

operations!(
    /// Elementwise operations on two operands. For floats and integers, not for bools, unless stated otherwise.
    Binary {
        /// Sum of both operands.
        Add = "add",
        /// Difference of the operands.
        Sub = "sub",
        /// Product of both operands.
        Mul = "mul",
        /// Quotient; rounded down for integers, and 0 for an integer division by 0.
        Div = "div",
        /// Remainder of the floor division, with the sign of the divisor; 0 for an integer division by 0.
        Rem = "rem",
        /// The first operand to the power of the second.
        Pow = "pow",
        /// The greater operand, or NaN if either is NaN; also of bools.
        Maximum = "maximum",
        /// The smaller operand, or NaN if either is NaN; also of bools.
        Minimum = "minimum",
        /// Bitwise and, of integers and bools only.
        And = "and",
        /// Bitwise or, of integers and bools only.
        Or = "or",
        /// Bitwise exclusive or, of integers and bools only.
        Xor = "xor",
        /// Left shift, of integers only; 0 for a negative amount, or for the width or more.
        Shl = "shl",
        /// Arithmetic right shift, of integers only; 0 or -1 for a negative amount, or for the width or more.
        Shr = "shr",
        /// Equality. Comparisons give bools and are defined for all types.
        Eq = "eq",
        /// Inequality of the operands.
        Ne = "ne",
        /// Whether the first operand is less.
        Lt = "lt",
        /// Whether the first operand is less or equal.
        Le = "le",
        /// Whether the first operand is greater.
        Gt = "gt",
        /// Whether the first operand is greater or equal.
        Ge = "ge",
    }
);

operations!(
    /// Elementwise operations on three operands.
    Ternary {
        /// The second operand where the first, a bool, is true, else the third; of any type.
        Where = "where",
        /// a · b + c, rounded once to the type of computation; of floats and integers.
        Fma = "fma",
        /// The first operand clamped to the range from the second to the third, or NaN if any operand is NaN; of floats
        /// and integers.
        Clamp = "clamp",
    }
);

operations!(
    /// Reductions of the elements along an axis.
    Reduce {
        /// Sum of floats or integers, in the element type; floats are rounded at the end.
        Sum = "sum",
        /// The greatest element, or NaN if any element is NaN.
        Max = "max",
        /// The least element, or NaN if any element is NaN.
        Min = "min",
        /// Index of the first greatest element, or of the first NaN, as an `i32`.
        Argmax = "argmax",
        /// Index of the first least element, or of the first NaN, as an `i32`.
        Argmin = "argmin",
        /// Product of floats or integers, rounded like the sum.
        Prod = "prod",
        /// Exclusive or of all elements, of integers and bools only.
        Xor = "xor",
    }
);

operations!(
    /// Inclusive running reductions along an axis; of floats and integers.
    Scan {
        /// Running sum; floats carry the unrounded sum.
        Cumsum = "cumsum",
        /// Running product; floats carry the unrounded product.
        Cumprod = "cumprod",
    }
);

impl Binary {
    /// Returns whether the operation is a comparison, whose result is bool.
    pub const fn compares(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }
}
