//! Edge cases, errors and rounding, beyond the comparison with NumPy in `python/tests/test_numeric.py`.

mod agreement;

use cubeyard_runtime::dtype::DType;
use proptest::prelude::*;

use super::narrow::Format;
use super::*;

fn tile(dtype: DType, shape: &[u64]) -> TileType {
    TileType::new(dtype, shape).unwrap()
}

fn array(dtype: DType, values: &[f64]) -> Array {
    Array::from_values(&tile(dtype, &[values.len() as u64]), values).unwrap()
}

fn of_two(operation: Binary, dtype: DType, a: &[f64], b: &[f64]) -> Vec<f64> {
    binary(operation, &array(dtype, a), &array(dtype, b)).unwrap().values()
}

fn assert_same(found: &[f64], expected: &[f64]) {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(found), bits(expected), "{found:?} {expected:?}");
}

#[test]
fn integers_divided_by_zero_are_zero_and_quotients_are_rounded_down() {
    let (a, b) = ([7.0, -7.0, 7.0, -7.0, 7.0, -128.0], [0.0, 2.0, -2.0, 0.0, 2.0, -1.0]);
    assert_eq!(of_two(Binary::Div, DType::I8, &a, &b), [0.0, -4.0, -4.0, 0.0, 3.0, -128.0]);
    assert_eq!(of_two(Binary::Rem, DType::I8, &a, &b), [0.0, 1.0, -1.0, 0.0, 1.0, 0.0]);
    let least = Array::full(TileType::scalar(DType::I64), -(2f64.powi(63))).unwrap();
    let minus = Array::full(TileType::scalar(DType::I64), -1.0).unwrap();
    let quotient = binary(Binary::Div, &least, &minus).unwrap();
    assert_eq!(quotient.integer(0), Some(i64::MIN.into()));
}

#[test]
fn a_shift_by_the_width_leaves_nothing_but_the_sign() {
    let by = [7.0, 8.0, 100.0, -1.0];
    assert_eq!(of_two(Binary::Shl, DType::I8, &[1.0; 4], &by), [-128.0, 0.0, 0.0, 0.0]);
    assert_eq!(of_two(Binary::Shr, DType::I8, &[-128.0; 4], &by), [-1.0; 4]);
    assert_eq!(of_two(Binary::Shr, DType::I8, &[127.0; 4], &by), [0.0; 4]);
    let by = [63.0, 64.0, 1e9];
    assert_eq!(of_two(Binary::Shr, DType::U64, &[2f64.powi(63); 3], &by), [1.0, 0.0, 0.0]);
}

#[test]
fn a_negative_power_of_an_integer_loses_its_fraction() {
    let base = [1.0, -1.0, -1.0, 2.0, 0.0, -3.0];
    let power = [-5.0, -5.0, -4.0, -1.0, -1.0, 3.0];
    assert_eq!(of_two(Binary::Pow, DType::I32, &base, &power), [1.0, -1.0, 1.0, 0.0, 0.0, -27.0]);
}

#[test]
fn wide_integers_are_exact_and_wrap() {
    let ty = tile(DType::U64, &[2]);
    let bytes: Vec<u8> = [u64::MAX, u64::MAX - 1].into_iter().flat_map(u64::to_le_bytes).collect();
    let a = Array::from_bytes(&ty, &bytes).unwrap();
    let one = Array::full(TileType::scalar(DType::U64), 1.0).unwrap();
    let sum = binary(Binary::Add, &a, &one).unwrap();
    assert_eq!((sum.integer(0), sum.integer(1)), (Some(0), Some(u64::MAX.into())));
    assert_eq!(a.to_bytes(), bytes);
    let signed = cast(&a, DType::I64).unwrap();
    assert_eq!((signed.integer(0), signed.integer(1)), (Some(-1), Some(-2)));
    assert_eq!(unary(Unary::Neg, &array(DType::U8, &[1.0])).unwrap().values(), [255.0]);
}

#[test]
fn what_is_not_a_number_wins_and_of_two_zeros_the_first() {
    let (a, b) = ([1.0, f64::NAN, 0.0, -0.0], [f64::NAN, 1.0, -0.0, 0.0]);
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E4m3, DType::Fp8E5m2, DType::F32, DType::F64] {
        for operation in [Binary::Maximum, Binary::Minimum] {
            let expected = [f64::NAN, f64::NAN, 0.0, -0.0];
            assert!(of_two(operation, dtype, &a, &b)[..2].iter().all(|value| value.is_nan()));
            assert_same(&of_two(operation, dtype, &a, &b)[2..], &expected[2..]);
        }
        let row = array(dtype, &[3.0, f64::NAN, 5.0, f64::NAN]);
        for (operation, index) in [(Reduce::Argmax, 1.0), (Reduce::Argmin, 1.0)] {
            assert_eq!(reduce(operation, &row, 0, false).unwrap().values(), [index]);
        }
        assert!(reduce(Reduce::Max, &row, 0, false).unwrap().values()[0].is_nan());
    }
}

#[test]
fn of_equals_the_first_is_found() {
    let a = Array::from_values(&tile(DType::I8, &[2, 3]), &[1.0, 4.0, 4.0, 4.0, 1.0, 1.0]).unwrap();
    let index = |operation, axis| {
        let found = reduce(operation, &a, axis, false).unwrap();
        assert_eq!(found.ty().dtype, DType::I32);
        found.values()
    };
    assert_eq!(index(Reduce::Argmax, 1), [1.0, 0.0]);
    assert_eq!(index(Reduce::Argmin, 1), [0.0, 1.0]);
    assert_eq!(index(Reduce::Argmax, 0), [1.0, 0.0, 0.0]);
}

#[test]
fn a_bitcast_keeps_the_bits() {
    let floats = [1.0, -0.0, 1e-40, f64::INFINITY, -2.5];
    let whole = bitcast(&array(DType::F32, &floats), DType::I32).unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "single precision is meant")]
    let wanted = floats.map(|value| i128::from((value as f32).to_bits().cast_signed()));
    assert_eq!(std::array::from_fn(|at| whole.integer(at).unwrap()), wanted);
    let back = bitcast(&whole, DType::F32).unwrap();
    assert_eq!(back.to_bytes(), array(DType::F32, &floats).to_bytes());
    let half = bitcast(&array(DType::U16, &[15360.0, 64512.0]), DType::F16).unwrap();
    assert_eq!(half.values(), [1.0, f64::NEG_INFINITY]);
    for (from, into) in [(DType::F32, DType::I64), (DType::U8, DType::Bool)] {
        let error = bitcast(&array(from, &[1.0]), into).unwrap_err().to_string();
        assert!(error.starts_with(&format!("bitcast of {from}[1] to {into}: expected")), "{error}");
    }
}

#[test]
fn a_float_beyond_an_integer_type_becomes_its_edge() {
    let a = array(DType::F32, &[1e30, -1e30, f64::NAN, 2.9, -2.9, f64::INFINITY]);
    let values = |dtype| cast(&a, dtype).unwrap().values();
    assert_eq!(values(DType::I8), [127.0, -128.0, 0.0, 2.0, -2.0, 127.0]);
    assert_eq!(values(DType::U16), [65535.0, 0.0, 0.0, 2.0, 0.0, 65535.0]);
    assert_eq!(cast(&a, DType::U64).unwrap().integer(0), Some(u64::MAX.into()));
    assert_eq!(values(DType::Bool), [1.0; 6]);
}

#[test]
fn sums_of_nothing_are_zero_and_greatest_elements_of_nothing_are_not() {
    let nothing = Array::full(tile(DType::F16, &[2, 0]), 7.0).unwrap();
    assert_eq!(reduce(Reduce::Sum, &nothing, 1, false).unwrap().values(), [0.0, 0.0]);
    assert_eq!(reduce(Reduce::Prod, &nothing, 1, true).unwrap().values(), [1.0, 1.0]);
    assert_eq!(reduce(Reduce::Sum, &nothing, 0, false).unwrap().ty(), &tile(DType::F16, &[0]));
    let error = reduce(Reduce::Max, &nothing, 1, false).unwrap_err();
    assert_eq!(error.to_string(), "max of f16[2, 0] along axis 1: it has length 0");
    // Very long axes in a tile without elements take no time.
    let long = Array::full(tile(DType::F16, &[u64::MAX, 0]), 7.0).unwrap();
    assert_eq!(reduce(Reduce::Sum, &long, 0, false).unwrap().values(), [0.0; 0]);
    assert_eq!(transpose(&long).unwrap().ty().shape.as_slice(), [0, u64::MAX]);
    assert_eq!(softmax(&long, 0).unwrap().values(), [0.0; 0]);
    assert_eq!(slice(&long, &[u64::MAX, 0], &[0, 0]).unwrap().values(), [0.0; 0]);
}

#[test]
fn a_tile_has_few_dimensions_and_elements() {
    let error = |shape: &[u64]| TileType::new(DType::F16, shape).unwrap_err().to_string();
    assert!(error(&[1; 25]).ends_with("1] has 25 dimensions; a tile has at most 24"));
    assert!(TileType::new(DType::F16, &[1; 24]).is_ok());
    let too_many = "has too many elements; a tile has at most 268435456";
    assert_eq!(error(&[1 << 28, 2]), format!("f16[268435456, 2] {too_many}"));
    assert_eq!(error(&[u64::MAX; 4]), format!("f16{:?} {too_many}", [u64::MAX; 4]));
    let (scalar, far) = (TileType::scalar(DType::F16), tile(DType::F16, &[1 << 15, 1]));
    assert_eq!((scalar.elements(), scalar.nbytes()), (1, 2));
    let other = tile(DType::F16, &[1, 1 << 15]);
    infer::binary(Binary::Add, &far, &other).unwrap_err();
    let one = Array::full(scalar, 1.0).unwrap();
    broadcast_to(&one, &[1 << 40]).unwrap_err();
}

#[test]
fn values_that_an_integer_type_has_not_are_refused() {
    let error = Array::full(tile(DType::I8, &[2]), 128.0).unwrap_err();
    assert_eq!(error.to_string(), "128 does not fit in i8, which ranges from -128 to 127");
    assert_eq!(Array::arange(DType::I8, 126.0, 2).unwrap().values(), [126.0, 127.0]);
    assert_eq!(Array::arange(DType::I8, 126.0, 3), Err(error));
    let error = Array::arange(DType::I8, 126.5, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "126.5 does not fit in i8, which ranges from -128 to 127 in whole numbers"
    );
    assert_eq!(Array::arange(DType::U8, -1.0, 0).unwrap().values(), [0.0; 0]);
    assert_eq!(Array::arange(DType::F16, 0.5, 3).unwrap().values(), [0.5, 1.5, 2.5]);
    let error = Array::arange(DType::Bool, 0.0, 2).unwrap_err();
    assert_eq!(error.to_string(), "a range of bool is not defined");
}

#[test]
fn masks_and_boxes_are_held_to_the_tile() {
    let a = Array::from_values(&tile(DType::I32, &[2, 2]), &[1.0, 2.0, 3.0, 4.0]).unwrap();
    let (mask, zero) = (array(DType::Bool, &[1.0, 0.0]), array(DType::I32, &[0.0]));
    assert_eq!(merge(&mask, &a, &zero).unwrap().values(), [1.0, 0.0, 3.0, 0.0]);
    assert_eq!(
        merge(&zero, &a, &zero).unwrap_err().to_string(),
        "merge with i32[1] as the condition: it must be bool"
    );
    assert_eq!(
        merge(&mask, &zero, &a).unwrap_err().to_string(),
        "broadcast of bool[2] to [1]: the shape does not fit"
    );
    let mut whole = a.clone();
    let error = paste(&mut whole, &[1, 1], &a).unwrap_err();
    assert_eq!(
        error.to_string(),
        "paste of i32[2, 2]: the box [2, 2] at [1, 1] is not within the tile"
    );
    assert_eq!(whole, a);
    slice(&a, &[u64::MAX, 0], &[2, 1]).unwrap_err();
    slice(&a, &[0], &[1]).unwrap_err();
}

#[test]
fn an_eight_bit_float_is_multiplied_with_a_narrow_one_exactly() {
    let narrow = [DType::Fp8E4m3, DType::Fp8E5m2, DType::F16, DType::Bf16];
    let numbers = |dtype, start| {
        // Quarters up to 4 are exact in every type.
        let count = Array::arange(DType::F32, start, 16).unwrap();
        let quarter = Array::full(tile(DType::F32, &[16]), 0.25).unwrap();
        let quarters = binary(Binary::Mul, &count, &quarter).unwrap();
        reshape(&cast(&quarters, dtype).unwrap(), &[4, 4]).unwrap()
    };
    let mut pairs = 0;
    for a in narrow {
        for b in narrow {
            let (left, right) = (numbers(a, -3.0), numbers(b, 1.0));
            let product = dot(&left, &right, None);
            let known = a == b || [a, b].iter().any(|dtype| narrow[..2].contains(dtype));
            assert_eq!(product.is_ok(), known, "{a} {b}");
            if let Ok(product) = product {
                let wide = |array| cast(array, DType::F32).unwrap();
                assert_eq!(product, dot(&wide(&left), &wide(&right), None).unwrap(), "{a} {b}");
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, 14);
    let single = numbers(DType::F32, 0.0);
    let error = dot(&numbers(DType::Fp8E4m3, 0.0), &single, None).unwrap_err().to_string();
    assert_eq!(error, "dot of fp8_e4m3[4, 4] and f32[4, 4]: the types differ");
}

#[test]
fn products_are_accumulated_in_their_own_kind() {
    let a = Array::full(tile(DType::F16, &[2, 3]), 0.5).unwrap();
    let b = Array::full(tile(DType::F16, &[3, 2]), 4.0).unwrap();
    let sum = dot(&a, &b, Some(&dot(&a, &b, None).unwrap())).unwrap();
    assert_eq!(sum, Array::full(tile(DType::F32, &[2, 2]), 12.0).unwrap());
    let narrow = Array::full(tile(DType::F16, &[2, 2]), 0.0).unwrap();
    assert_eq!(
        dot(&a, &b, Some(&narrow)).unwrap_err().to_string(),
        "dot into f16[2, 2]: the product is f32[2, 2]"
    );
    let ints = Array::full(tile(DType::I8, &[1, 1 << 10]), -128.0).unwrap();
    let product = dot(&ints, &transpose(&ints).unwrap(), None).unwrap();
    assert_eq!(product.values(), [f64::from(1 << 24)]);
}

proptest! {
    /// The vectorised rounding agrees with the rounding of the runtime's types.
    #[test]
    fn floats_are_rounded_and_written_as_the_runtime_does(bits: u32, wide: u64) {
        for dtype in [DType::F16, DType::Bf16, DType::Fp8E4m3, DType::Fp8E5m2] {
            let encoded = |value: f64| {
                let mut bytes = Vec::new();
                dtype.encode(value, &mut bytes).unwrap();
                dtype.decode(&bytes)
            };
            let single = f32::from_bits(bits);
            let (ours, theirs) = (f64::from(Format::of(dtype).round(single)), encoded(single.into()));
            prop_assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
            let double = Array::from_bytes(&TileType::scalar(DType::F64), &wide.to_le_bytes()).unwrap();
            let (ours, theirs) = (cast(&double, dtype).unwrap().values()[0], encoded(f64::from_bits(wide)));
            prop_assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        }
    }

    /// Values just above and below a tie, for which rounding twice would give a different result.
    #[test]
    fn a_double_is_rounded_once(code in 0_u16..0x7bff, steps in -1_i64..=1) {
        let value = |code: u16| DType::F16.decode(&code.to_le_bytes());
        let middle = f64::midpoint(value(code), value(code + 1));
        let beside = f64::from_bits(middle.to_bits().strict_add_signed(steps));
        let found = cast(&array(DType::F64, &[beside]), DType::F16).unwrap().to_bytes();
        let expected = match steps {
            -1 => code,
            0 => code + (code & 1),
            _ => code + 1,
        };
        prop_assert_eq!(found, expected.to_le_bytes());
    }

    #[test]
    fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 48), dtype in 0..14_usize) {
        let dtype = DType::ALL[dtype];
        let ty = tile(dtype, &[48 / dtype.size()]);
        prop_assert_eq!(Array::from_bytes(&ty, &bytes).unwrap().to_bytes(), bytes);
    }
}
