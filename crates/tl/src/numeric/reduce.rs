//! Operations along an axis.

use std::ops::BitXor;

use super::tile::length;
use super::value::{Data, Number, Ordered, Real, each};
use super::{Array, NumericError, Reduce, Scan, TileType, infer};

/// Number of partial results in a reduction of contiguous elements, which are then combined in order. It is the same on
/// all hosts, because the sum of floats depends on it.
const LANES: usize = 8;

/// An axis of a tile: its length, and the stride between its elements.
#[derive(Clone, Copy)]
struct Axis {
    count: usize,
    inner: usize,
}

impl Axis {
    /// Describes an axis of a tile that has elements.
    fn of(tile: &TileType, axis: usize) -> Self {
        let inner = tile.shape[axis + 1..].iter().map(|&side| length(side)).product();
        Self { count: length(tile.shape[axis]), inner }
    }

    /// Returns the number of elements per index of the dimensions before the axis.
    fn block(self) -> usize {
        self.count * self.inner
    }

    /// Reduces the elements along the axis.
    fn fold<T: Copy>(self, values: &[T], operation: impl Fn(T, T) -> T) -> Vec<T> {
        if self.inner == 1 {
            return values.chunks_exact(self.count).map(|row| fold_row(row, &operation)).collect();
        }
        let mut folded = Vec::with_capacity(values.len() / self.count);
        for block in values.chunks_exact(self.block()) {
            let (first, rest) = block.split_at(self.inner);
            let at = folded.len();
            folded.extend_from_slice(first);
            for row in rest.chunks_exact(self.inner) {
                folded[at..]
                    .iter_mut()
                    .zip(row)
                    .for_each(|(folded, &value)| *folded = operation(*folded, value));
            }
        }
        folded
    }

    /// Returns the index along the axis of the first element that no other displaces.
    fn find<T: Copy>(self, values: &[T], takes_place: impl Fn(T, T) -> bool) -> Vec<i64> {
        let mut found = Vec::with_capacity(values.len() / self.count);
        for block in values.chunks_exact(self.block()) {
            for column in 0..self.inner {
                let value = |index| block[column + index * self.inner];
                let better =
                    |best, next| if takes_place(value(next), value(best)) { next } else { best };
                let best = (1..self.count).fold(0, better);
                found.push(i64::try_from(best).expect("a tile has few elements"));
            }
        }
        found
    }

    /// Combines each element with the reduction of its axis.
    fn zip<T: Copy>(self, values: &[T], folded: &[T], operation: impl Fn(T, T) -> T) -> Vec<T> {
        let mut zipped = Vec::with_capacity(values.len());
        for (block, folded) in
            values.chunks_exact(self.block()).zip(folded.chunks_exact(self.inner))
        {
            if let [one] = folded {
                zipped.extend(block.iter().map(|&value| operation(value, *one)));
                continue;
            }
            for row in block.chunks_exact(self.inner) {
                zipped.extend(row.iter().zip(folded).map(|(&value, &one)| operation(value, one)));
            }
        }
        zipped
    }
}

/// Folds in lanes, so that the loop vectorises, and then combines the lanes in order.
fn fold_row<T: Copy>(row: &[T], operation: impl Fn(T, T) -> T) -> T {
    let (chunks, rest) = row.as_chunks::<LANES>();
    let folded = chunks.iter().copied().reduce(|mut lanes, chunk| {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane = operation(*lane, value));
        lanes
    });
    let all = folded.iter().flatten().chain(rest).copied();
    all.reduce(operation).expect("a row of length 0 is not reduced")
}

/// Reduces the elements along an axis, which is then kept with length 1 or removed.
pub fn reduce(
    operation: Reduce,
    a: &Array,
    axis: usize,
    keep: bool,
) -> Result<Array, NumericError> {
    let ty = infer::reduce(operation, a.ty(), axis, keep)?;
    if a.ty().elements() == 0 {
        // Reductions of an empty axis other than sum, product and xor were rejected earlier.
        return Array::full(ty, if operation == Reduce::Prod { 1.0 } else { 0.0 });
    }
    let along = Axis::of(a.ty(), axis);
    let data = match (operation, a.data()) {
        (Reduce::Argmax | Reduce::Argmin, data) => Data::Signed(indices(operation, data, along)),
        (Reduce::Max, data) => each!(data, values => along.fold(values, Ordered::maximum)),
        (Reduce::Min, data) => each!(data, values => along.fold(values, Ordered::minimum)),
        (_, Data::Single(values)) => Data::Single(number_reduce(operation, values, along)),
        (_, Data::Double(values)) => Data::Double(number_reduce(operation, values, along)),
        (Reduce::Xor, Data::Signed(values)) => Data::Signed(along.fold(values, BitXor::bitxor)),
        (Reduce::Xor, Data::Unsigned(values)) => Data::Unsigned(along.fold(values, BitXor::bitxor)),
        (_, Data::Signed(values)) => Data::Signed(number_reduce(operation, values, along)),
        (_, Data::Unsigned(values)) => Data::Unsigned(number_reduce(operation, values, along)),
        (_, Data::Truth(values)) => Data::Truth(along.fold(values, BitXor::bitxor)),
    };
    Ok(Array::rounded(ty, data))
}

fn indices(operation: Reduce, data: &Data, along: Axis) -> Vec<i64> {
    fn find<T: Ordered>(operation: Reduce, values: &[T], along: Axis) -> Vec<i64> {
        if operation == Reduce::Argmax {
            return along.find(values, Ordered::exceeds);
        }
        along.find(values, Ordered::falls_below)
    }
    match data {
        Data::Single(values) => find(operation, values, along),
        Data::Double(values) => find(operation, values, along),
        Data::Signed(values) => find(operation, values, along),
        Data::Unsigned(values) => find(operation, values, along),
        Data::Truth(values) => find(operation, values, along),
    }
}

fn number_reduce<T: Number>(operation: Reduce, values: &[T], along: Axis) -> Vec<T> {
    match operation {
        Reduce::Sum => along.fold(values, T::add),
        Reduce::Prod => along.fold(values, T::mul),
        _ => unreachable!("the operation was refused for this type before"),
    }
}

/// Replaces each element by the reduction of all elements along an axis up to it.
pub fn scan(operation: Scan, a: &Array, axis: usize) -> Result<Array, NumericError> {
    let ty = infer::scan(operation, a.ty(), axis)?;
    if ty.elements() == 0 {
        return Ok(a.clone());
    }
    let along = Axis::of(&ty, axis);
    let data = match a.data() {
        Data::Single(values) => Data::Single(number_scan(operation, values, along)),
        Data::Double(values) => Data::Double(number_scan(operation, values, along)),
        Data::Signed(values) => Data::Signed(number_scan(operation, values, along)),
        Data::Unsigned(values) => Data::Unsigned(number_scan(operation, values, along)),
        Data::Truth(_) => unreachable!("bools were refused before"),
    };
    Ok(Array::rounded(ty, data))
}

fn number_scan<T: Number>(operation: Scan, values: &[T], along: Axis) -> Vec<T> {
    let mut scanned = values.to_vec();
    for block in scanned.chunks_exact_mut(along.block()) {
        for at in along.inner..block.len() {
            let before = block[at - along.inner];
            block[at] = match operation {
                Scan::Cumsum => before.add(block[at]),
                Scan::Cumprod => before.mul(block[at]),
            };
        }
    }
    scanned
}

/// Returns exp(x - max) divided by its sum along an axis, rounded at the end.
///
/// A row that contains NaN or +∞, or only -∞, becomes NaN.
pub fn softmax(a: &Array, axis: usize) -> Result<Array, NumericError> {
    let ty = infer::softmax(a.ty(), axis)?;
    if ty.elements() == 0 {
        return Ok(a.clone());
    }
    let along = Axis::of(&ty, axis);
    let data = match a.data() {
        Data::Single(values) => Data::Single(real_softmax(values, along)),
        Data::Double(values) => Data::Double(real_softmax(values, along)),
        _ => unreachable!("integers and bools were refused before"),
    };
    Ok(Array::rounded(ty, data))
}

fn real_softmax<T: Real>(values: &[T], along: Axis) -> Vec<T> {
    let greatest = along.fold(values, T::maximum);
    let powers = along.zip(values, &greatest, |value, greatest| value.sub(greatest).exp());
    let sums = along.fold(&powers, T::add);
    along.zip(&powers, &sums, T::div)
}
