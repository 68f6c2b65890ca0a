//! Whatever is asked of tiles with numbers and of their kinds alone, the answers agree, errors included.

use std::fmt::Debug;

use proptest::strategy::ValueTree;

use super::*;

/// Kinds of tiles that often fit together and often do not.
fn kinds() -> impl Strategy<Value = TileType> {
    let shape = proptest::collection::vec(prop_oneof![Just(1_u64), 0..4_u64], 0..=4);
    let dtype = prop_oneof![Just(DType::F16), Just(DType::I8), Just(DType::Bool), dtypes()];
    (dtype, shape).prop_map(|(dtype, shape)| TileType { dtype, shape })
}

fn dtypes() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// A tile of any bytes.
fn filled(ty: &TileType, seed: u64) -> Array {
    let mut state = seed | 1;
    let bytes = (0..ty.nbytes()).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    });
    Array::from_bytes(ty, &bytes.collect::<Vec<_>>()).unwrap()
}

/// That both agree, and that the tile has as many bytes as its kind; whether there is a result.
fn agree(
    computed: Result<Array, NumericError>,
    inferred: Result<TileType, NumericError>,
    what: impl Debug,
) -> usize {
    assert_eq!(computed.as_ref().map(Array::ty), inferred.as_ref(), "{what:?}");
    if let Ok(array) = &computed {
        assert_eq!(array.to_bytes().len() as u64, array.ty().nbytes(), "{what:?}");
        assert_eq!(Array::from_bytes(array.ty(), &array.to_bytes()).unwrap().ty(), array.ty());
    }
    usize::from(computed.is_ok())
}

fn of_one(a: &TileType, x: &Array, axis: usize, dtype: DType) -> usize {
    let mut results = 0;
    for &operation in Unary::ALL {
        results += agree(unary(operation, x), infer::unary(operation, a), (operation, a));
    }
    for (&operation, keep) in Reduce::ALL.iter().zip([true, false].into_iter().cycle()) {
        let inferred = infer::reduce(operation, a, axis, keep);
        results += agree(reduce(operation, x, axis, keep), inferred, (operation, a, axis));
    }
    for &operation in Scan::ALL {
        results += agree(scan(operation, x, axis), infer::scan(operation, a, axis), (operation, a));
    }
    results += agree(softmax(x, axis), infer::softmax(a, axis), a);
    results += agree(cast(x, dtype), infer::cast(a, dtype), (a, dtype));
    results + agree(transpose(x), infer::transpose(a), a)
}

fn of_two(a: &TileType, b: &TileType, x: &Array, y: &Array) -> usize {
    let mut results = 0;
    for &operation in Binary::ALL {
        let inferred = infer::binary(operation, a, b);
        results += agree(binary(operation, x, y), inferred, (operation, a, b));
    }
    results += agree(dot(x, y, None), infer::dot(a, b, None), (a, b));
    results += agree(reshape(x, &b.shape), infer::reshape(a, &b.shape), (a, b));
    results + agree(broadcast_to(x, &b.shape), infer::broadcast_to(a, &b.shape), (a, b))
}

fn of_three(kinds: [&TileType; 3], [x, y, z]: [&Array; 3]) -> usize {
    let [a, b, c] = kinds;
    let mut results = 0;
    for &operation in Ternary::ALL {
        let inferred = infer::ternary(operation, a, b, c);
        results += agree(ternary(operation, x, y, z), inferred, (operation, kinds));
    }
    results += agree(merge(x, y, z), infer::merge(a, b, c), kinds);
    results + agree(dot(x, y, Some(z)), infer::dot(a, b, Some(c)), kinds)
}

fn in_places(a: &TileType, b: &TileType, x: &Array, y: &Array, start: &[u64]) -> usize {
    let start = &start[..start.len().min(a.shape.len())];
    let sliced = infer::slice(a, start, &b.shape);
    let mut pasted = x.clone();
    let outcome = paste(&mut pasted, start, y).map(|()| pasted);
    agree(slice(x, start, &b.shape), sliced, (a, b, start))
        + agree(outcome, infer::paste(a, start, b), (a, b, start))
}

fn permuted(a: &TileType, x: &Array, axes: &[usize]) -> usize {
    agree(permute(x, axes), infer::permute(a, axes), (a, axes))
}

#[test]
fn kinds_alone_say_what_numbers_do() {
    let mut results = 0;
    let inputs = (kinds(), kinds(), kinds(), dtypes(), 0..4_usize, any::<u64>(), any::<bool>());
    let places =
        (proptest::collection::vec(0..3_u64, 4), proptest::collection::vec(0..4_usize, 0..4));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..2000 {
        let (a, mut b, mut c, dtype, axis, seed, same) = sample(&mut runner, &inputs);
        let (start, axes) = sample(&mut runner, &places);
        if same {
            (b.dtype, c.dtype) = (a.dtype, a.dtype);
        }
        let (x, y, z) = (filled(&a, seed), filled(&b, seed ^ 2), filled(&c, seed ^ 4));
        results += of_one(&a, &x, axis, dtype) + of_two(&a, &b, &x, &y);
        results += of_three([&a, &b, &c], [&x, &y, &z]) + in_places(&a, &b, &x, &y, &start);
        results += permuted(&a, &x, &axes);
        let value = f64::from_bits(seed);
        results += agree(Array::full(a.clone(), value), infer::full(&a, value), (&a, value));
        let range = infer::arange(dtype, value, b.elements());
        results += agree(Array::arange(dtype, value, b.elements()), range, (dtype, value));
    }
    assert!(results > 20_000, "{results}");
}

fn sample<S: Strategy>(runner: &mut proptest::test_runner::TestRunner, strategy: &S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}
