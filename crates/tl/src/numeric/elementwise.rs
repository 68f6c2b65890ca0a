//! Elementwise operations on arrays.

use std::ops::Not;

use super::shape::spread;
use super::value::{Bits, Data, Number, Ordered, Real, Shift, each_pair};
use super::{Array, Binary, NumericError, Ternary, Unary, infer};

const REFUSED: &str = "the operation was refused for this type before";

/// Applies an operation to each element. NaN gives NaN.
pub fn unary(operation: Unary, a: &Array) -> Result<Array, NumericError> {
    let ty = infer::unary(operation, a.ty())?;
    let data = match a.data() {
        Data::Single(values) => Data::Single(real_unary(operation, values)),
        Data::Double(values) => Data::Double(real_unary(operation, values)),
        Data::Signed(values) => Data::Signed(integer_unary(operation, values)),
        Data::Unsigned(values) => Data::Unsigned(integer_unary(operation, values)),
        Data::Truth(values) => Data::Truth(map(values, Not::not)),
    };
    Ok(Array::rounded(ty, data))
}

fn real_unary<T: Real>(operation: Unary, values: &[T]) -> Vec<T> {
    match operation {
        Unary::Exp => map(values, T::exp),
        Unary::Exp2 => map(values, T::exp2),
        Unary::Log => map(values, T::log),
        Unary::Log2 => map(values, T::log2),
        Unary::Sqrt => map(values, T::sqrt),
        Unary::Rsqrt => map(values, T::rsqrt),
        Unary::Sigmoid => map(values, T::sigmoid),
        Unary::Tanh => map(values, T::tanh),
        Unary::Erf => map(values, T::erf),
        Unary::Sin => map(values, T::sin),
        Unary::Cos => map(values, T::cos),
        _ => number_unary(operation, values),
    }
}

fn integer_unary<T: Number + Bits>(operation: Unary, values: &[T]) -> Vec<T> {
    match operation {
        Unary::Not => map(values, T::not),
        _ => number_unary(operation, values),
    }
}

fn number_unary<T: Number>(operation: Unary, values: &[T]) -> Vec<T> {
    match operation {
        Unary::Neg => map(values, T::neg),
        Unary::Abs => map(values, T::abs),
        Unary::Floor => map(values, T::floor),
        Unary::Ceil => map(values, T::ceil),
        Unary::Relu => map(values, |value| value.maximum(T::default())),
        _ => unreachable!("{REFUSED}"),
    }
}

/// Applies an operation to each pair of elements; the operands broadcast.
pub fn binary(operation: Binary, a: &Array, b: &Array) -> Result<Array, NumericError> {
    let ty = infer::binary(operation, a.ty(), b.ty())?;
    let (a, b) = (spread(a, &ty.shape), spread(b, &ty.shape));
    if operation.compares() {
        return Ok(Array::new(ty, Data::Truth(compare(operation, &a, &b))));
    }
    let data = match (&*a, &*b) {
        (Data::Single(a), Data::Single(b)) => Data::Single(number_binary(operation, a, b)),
        (Data::Double(a), Data::Double(b)) => Data::Double(number_binary(operation, a, b)),
        (Data::Signed(a), Data::Signed(b)) => Data::Signed(integer_binary(operation, a, b)),
        (Data::Unsigned(a), Data::Unsigned(b)) => Data::Unsigned(integer_binary(operation, a, b)),
        (Data::Truth(a), Data::Truth(b)) => Data::Truth(bits_binary(operation, a, b)),
        _ => unreachable!("{REFUSED}"),
    };
    Ok(Array::rounded(ty, data))
}

fn number_binary<T: Number>(operation: Binary, a: &[T], b: &[T]) -> Vec<T> {
    match operation {
        Binary::Add => zip(a, b, T::add),
        Binary::Sub => zip(a, b, T::sub),
        Binary::Mul => zip(a, b, T::mul),
        Binary::Div => zip(a, b, T::div),
        Binary::Rem => zip(a, b, T::rem),
        Binary::Pow => zip(a, b, T::pow),
        _ => order(operation, a, b),
    }
}

fn integer_binary<T: Number + Shift>(operation: Binary, a: &[T], b: &[T]) -> Vec<T> {
    match operation {
        Binary::Shl => zip(a, b, T::shl),
        Binary::Shr => zip(a, b, T::shr),
        Binary::And | Binary::Or | Binary::Xor => bits_binary(operation, a, b),
        _ => number_binary(operation, a, b),
    }
}

fn bits_binary<T: Bits>(operation: Binary, a: &[T], b: &[T]) -> Vec<T> {
    match operation {
        Binary::And => zip(a, b, T::bitand),
        Binary::Or => zip(a, b, T::bitor),
        Binary::Xor => zip(a, b, T::bitxor),
        _ => order(operation, a, b),
    }
}

fn order<T: Ordered>(operation: Binary, a: &[T], b: &[T]) -> Vec<T> {
    match operation {
        Binary::Maximum => zip(a, b, T::maximum),
        Binary::Minimum => zip(a, b, T::minimum),
        _ => unreachable!("{REFUSED}"),
    }
}

fn compare(operation: Binary, a: &Data, b: &Data) -> Vec<bool> {
    match (a, b) {
        (Data::Single(a), Data::Single(b)) => compare_values(operation, a, b),
        (Data::Double(a), Data::Double(b)) => compare_values(operation, a, b),
        (Data::Signed(a), Data::Signed(b)) => compare_values(operation, a, b),
        (Data::Unsigned(a), Data::Unsigned(b)) => compare_values(operation, a, b),
        (Data::Truth(a), Data::Truth(b)) => compare_values(operation, a, b),
        _ => unreachable!("{REFUSED}"),
    }
}

fn compare_values<T: Ordered>(operation: Binary, a: &[T], b: &[T]) -> Vec<bool> {
    match operation {
        Binary::Eq => zip(a, b, |a, b| a == b),
        Binary::Ne => zip(a, b, |a, b| a != b),
        Binary::Lt => zip(a, b, |a, b| a < b),
        Binary::Le => zip(a, b, |a, b| a <= b),
        Binary::Gt => zip(a, b, |a, b| a > b),
        Binary::Ge => zip(a, b, |a, b| a >= b),
        _ => unreachable!("it compares"),
    }
}

/// Applies an operation to each triple of elements; the operands broadcast.
pub fn ternary(operation: Ternary, a: &Array, b: &Array, c: &Array) -> Result<Array, NumericError> {
    let ty = infer::ternary(operation, a.ty(), b.ty(), c.ty())?;
    let [a, b, c] = [a, b, c].map(|operand| spread(operand, &ty.shape));
    let data = match (&*a, &*b, &*c) {
        (Data::Truth(mask), b, c) => choose(mask, b, c),
        (Data::Single(a), Data::Single(b), Data::Single(c)) => {
            Data::Single(number_ternary(operation, a, b, c))
        }
        (Data::Double(a), Data::Double(b), Data::Double(c)) => {
            Data::Double(number_ternary(operation, a, b, c))
        }
        (Data::Signed(a), Data::Signed(b), Data::Signed(c)) => {
            Data::Signed(number_ternary(operation, a, b, c))
        }
        (Data::Unsigned(a), Data::Unsigned(b), Data::Unsigned(c)) => {
            Data::Unsigned(number_ternary(operation, a, b, c))
        }
        _ => unreachable!("{REFUSED}"),
    };
    // `where` only selects elements, so it does not round.
    Ok(if operation == Ternary::Where { Array::new(ty, data) } else { Array::rounded(ty, data) })
}

fn number_ternary<T: Number>(operation: Ternary, a: &[T], b: &[T], c: &[T]) -> Vec<T> {
    let triples = a.iter().zip(b).zip(c).map(|((&a, &b), &c)| (a, b, c));
    match operation {
        Ternary::Fma => triples.map(|(a, b, c)| a.fma(b, c)).collect(),
        Ternary::Clamp => triples.map(|(a, b, c)| a.maximum(b).minimum(c)).collect(),
        Ternary::Where => unreachable!("its first operand is a bool"),
    }
}

fn choose(mask: &[bool], yes: &Data, no: &Data) -> Data {
    each_pair!(yes, no, (yes, no) => {
        let triples = mask.iter().zip(yes).zip(no);
        triples.map(|((&mask, &yes), &no)| if mask { yes } else { no }).collect()
    })
}

/// Returns `value` where the mask is true, else `other`: the result of a masked load or store.
///
/// The result has the shape of `value`, to which the other two broadcast.
pub fn merge(mask: &Array, value: &Array, other: &Array) -> Result<Array, NumericError> {
    infer::merge(mask.ty(), value.ty(), other.ty())?;
    ternary(Ternary::Where, mask, value, other)
}

fn map<T: Copy>(values: &[T], operation: impl Fn(T) -> T) -> Vec<T> {
    values.iter().map(|&value| operation(value)).collect()
}

fn zip<T: Copy, U>(a: &[T], b: &[T], operation: impl Fn(T, T) -> U) -> Vec<U> {
    a.iter().zip(b).map(|(&a, &b)| operation(a, b)).collect()
}
