//! Operations on arrays and on types alone agree, including their errors.

use std::fmt::Debug;

use cubeyard_runtime::Scalar;
use proptest::collection::vec;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;

/// Tile types, many but not all of which are compatible.
fn kinds() -> impl Strategy<Value = TileType> {
    let shape = vec(prop_oneof![Just(1_u64), 0..4_u64], 0..=4);
    let dtype = prop_oneof![Just(DType::F16), Just(DType::I8), Just(DType::Bool), dtypes()];
    (dtype, shape).prop_map(|(dtype, shape)| TileType { dtype, shape: shape.into() })
}

fn dtypes() -> impl Strategy<Value = DType> {
    proptest::sample::select(DType::ALL.to_vec())
}

/// Numbers of every kind, which many but not all types can represent.
fn scalars() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<bool>().prop_map(Scalar::from),
        (-300_i64..300).prop_map(Scalar::from),
        any::<i64>().prop_map(Scalar::from),
        (-300_f64..300.0).prop_map(Scalar::from),
    ]
}

/// Returns a tile of pseudorandom bytes.
fn filled(ty: &TileType, seed: u64) -> Array {
    let mut state = seed | 1;
    let bytes = (0..ty.nbytes()).map(|_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[7]
    });
    Array::from_bytes(ty, &bytes.collect::<Vec<_>>()).unwrap()
}

/// Asserts that both agree and that the tile has the number of bytes that its type states; returns 1 if there is a
/// result.
fn agree(
    computed: Result<Array, NumericError>,
    inferred: Result<TileType, NumericError>,
    what: impl Debug,
) -> usize {
    match (computed, inferred) {
        (Ok(array), Ok(ty)) => {
            assert_eq!(*array.ty(), ty, "{what:?}");
            assert_eq!(array.to_bytes().len() as u64, ty.nbytes(), "{what:?}");
            1
        }
        (Err(error), Err(foreseen)) => {
            assert_eq!(error, foreseen, "{what:?}");
            0
        }
        (computed, inferred) => panic!("{what:?}: {computed:?} {inferred:?}"),
    }
}

fn of_one(a: &Array, axis: usize, dtype: DType) -> usize {
    let (mut results, ty) = (0, a.ty());
    for &operation in Unary::ALL {
        results += agree(unary(operation, a), infer::unary(operation, ty), (operation, ty));
    }
    for (&operation, keep) in Reduce::ALL.iter().zip([true, false].into_iter().cycle()) {
        let inferred = infer::reduce(operation, ty, axis, keep);
        results += agree(reduce(operation, a, axis, keep), inferred, (operation, ty, axis));
    }
    for &operation in Scan::ALL {
        results += agree(scan(operation, a, axis), infer::scan(operation, ty, axis), operation);
    }
    results += agree(softmax(a, axis), infer::softmax(ty, axis), ty);
    results += agree(cast(a, dtype), infer::cast(ty, dtype), (ty, dtype));
    results += agree(bitcast(a, dtype), infer::bitcast(ty, dtype), (ty, dtype));
    results + agree(transpose(a), infer::transpose(ty), ty)
}

fn of_two(a: &Array, b: &Array) -> usize {
    let (mut results, kinds, shape) = (0, (a.ty(), b.ty()), &b.ty().shape);
    for &operation in Binary::ALL {
        let inferred = infer::binary(operation, kinds.0, kinds.1);
        results += agree(binary(operation, a, b), inferred, (operation, kinds));
    }
    results += agree(dot(a, b, None), infer::dot(kinds.0, kinds.1, None), kinds);
    results += agree(reshape(a, shape), infer::reshape(kinds.0, shape), kinds);
    results + agree(broadcast_to(a, shape), infer::broadcast_to(kinds.0, shape), kinds)
}

fn of_three(a: &Array, b: &Array, c: &Array) -> usize {
    let (mut results, kinds) = (0, (a.ty(), b.ty(), c.ty()));
    for &operation in Ternary::ALL {
        let inferred = infer::ternary(operation, kinds.0, kinds.1, kinds.2);
        results += agree(ternary(operation, a, b, c), inferred, (operation, kinds));
    }
    results += agree(merge(a, b, c), infer::merge(kinds.0, kinds.1, kinds.2), kinds);
    results + agree(dot(a, b, Some(c)), infer::dot(kinds.0, kinds.1, Some(kinds.2)), kinds)
}

fn in_places(a: &Array, b: &Array, start: &[u64], axes: &[usize]) -> usize {
    let (whole, part) = (a.ty(), b.ty());
    let start = &start[..start.len().min(whole.shape.len())];
    let mut pasted = a.clone();
    let outcome = paste(&mut pasted, start, b).map(|()| pasted);
    let sliced = infer::slice(whole, start, &part.shape);
    agree(slice(a, start, &part.shape), sliced, (whole, part, start))
        + agree(outcome, infer::paste(whole, start, part), (whole, part, start))
        + agree(permute(a, axes), infer::permute(whole, axes), (whole, axes))
}

fn out_of_values(ty: &TileType, value: Scalar) -> usize {
    let range = infer::arange(ty.dtype, value, ty.elements());
    agree(Array::full(ty.clone(), value), infer::full(ty, value), (ty, value))
        + agree(Array::arange(ty.dtype, value, ty.elements()), range, (ty, value))
}

#[test]
fn kinds_alone_say_what_numbers_do() {
    let tiles = (kinds(), kinds(), kinds(), any::<u64>(), any::<bool>());
    let arguments = (dtypes(), 0..4_usize, vec(0..3_u64, 4), vec(0..4_usize, 0..4), scalars());
    let (mut results, mut runner) = (0, TestRunner::deterministic());
    for _ in 0..2000 {
        let (a, mut b, mut c, seed, same) = sample(&mut runner, &tiles);
        let (dtype, axis, start, order, value) = sample(&mut runner, &arguments);
        if same {
            (b.dtype, c.dtype) = (a.dtype, a.dtype);
        }
        let (a, b, c) = (filled(&a, seed), filled(&b, seed ^ 2), filled(&c, seed ^ 4));
        results += of_one(&a, axis, dtype) + of_two(&a, &b) + of_three(&a, &b, &c);
        results += in_places(&a, &b, &start, &order) + out_of_values(a.ty(), value);
    }
    assert!(results > 20_000, "{results}");
}

fn sample<S: Strategy>(runner: &mut TestRunner, strategy: &S) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}
