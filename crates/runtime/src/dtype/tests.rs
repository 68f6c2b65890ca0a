use half::{bf16, f16};
use proptest::prelude::*;

use super::*;

fn encoded(dtype: DType, value: f64) -> Vec<u8> {
    let mut bytes = Vec::new();
    dtype.encode(value, &mut bytes).unwrap();
    bytes
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Returns the value of an fp8 code, computed from its bits.
fn closed_form(code: u8, exponent_bits: u32, no_infinities: bool) -> f64 {
    let mantissa_bits = 7 - exponent_bits;
    let exponent = u32::from(code & 0x7f) >> mantissa_bits;
    let mantissa = u32::from(code) & ((1 << mantissa_bits) - 1);
    let (all, bias) = ((1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1);
    let fraction = f64::from(mantissa) / f64::from(1 << mantissa_bits);
    let value = match (exponent, mantissa) {
        (_, 7) if no_infinities && exponent == all => f64::NAN,
        (_, 0) if !no_infinities && exponent == all => f64::INFINITY,
        _ if !no_infinities && exponent == all => f64::NAN,
        (0, _) => fraction * 2f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2f64.powi(i32::try_from(exponent).unwrap() - bias),
    };
    if code < 0x80 { value } else { -value }
}

#[test]
fn every_fp8_code_is_the_number_of_its_bits_and_back() {
    for code in 0..=u8::MAX {
        for (dtype, bits, no_infinities) in [(DType::Fp8E4m3, 4, true), (DType::Fp8E5m2, 5, false)]
        {
            let value = dtype.decode(&[code]);
            assert!(same(value, closed_form(code, bits, no_infinities)), "{dtype} {code:#04x}");
            let expected = if value.is_nan() { code & 0x80 | 0x7f } else { code };
            assert_eq!(encoded(dtype, value), [expected], "{dtype} {code:#04x}");
        }
        // An e5m2 number is the upper half of a binary16 number.
        let wide = f16::from_bits(u16::from(code) << 8).to_f64();
        assert!(same(DType::Fp8E5m2.decode(&[code]), wide));
    }
}

#[test]
fn every_16_bit_float_is_read_as_half_reads_it_and_written_back() {
    for code in 0..=u16::MAX {
        let bytes = code.to_le_bytes();
        for (dtype, expected) in [
            (DType::F16, f16::from_bits(code).to_f64()),
            (DType::Bf16, bf16::from_bits(code).to_f64()),
        ] {
            let value = dtype.decode(&bytes);
            assert!(same(value, expected), "{dtype} {code:#06x}");
            if value.is_nan() {
                assert!(dtype.decode(&encoded(dtype, value)).is_nan());
            } else {
                assert_eq!(encoded(dtype, value), bytes, "{dtype} {code:#06x}");
            }
        }
    }
}

/// Values between neighbours, from just below the tie to just above it.
#[test]
fn ties_go_to_even_and_what_is_beside_them_to_the_nearer() {
    let mut ties = 0;
    for (dtype, greatest) in [
        (DType::F16, 0x7bff),
        (DType::Bf16, 0x7f7f),
        (DType::Fp8E4m3, 0x7e),
        (DType::Fp8E5m2, 0x7b),
    ] {
        let number = |code: u16| dtype.decode(&code.to_le_bytes()[..dtype.width()]);
        let code = |value| {
            encoded(dtype, value).iter().rfold(0, |code, &byte| code << 8 | u16::from(byte))
        };
        for low in 0..greatest {
            let (below, above) = (number(low), number(low + 1));
            let tie = f64::midpoint(below, above);
            assert_eq!(code(tie.next_down()), low, "{dtype} {low:#x}");
            assert_eq!(code(tie), low + (low & 1), "{dtype} {low:#x}");
            assert_eq!(code(tie.next_up()), low + 1, "{dtype} {low:#x}");
            ties += 1;
        }
    }
    assert_eq!(ties, 0x7bff + 0x7f7f + 0x7e + 0x7b);
}

#[test]
fn beyond_the_greatest_is_infinite_or_in_e4m3_not_a_number() {
    assert_eq!(encoded(DType::Fp8E4m3, 448.0), [0x7e]);
    assert_eq!(encoded(DType::Fp8E4m3, 464.0), [0x7e]);
    for value in [464f64.next_up(), 1e300, f64::INFINITY] {
        assert_eq!(
            (encoded(DType::Fp8E4m3, value), encoded(DType::Fp8E4m3, -value)),
            (vec![0x7f], vec![0xff])
        );
    }
    assert_eq!(encoded(DType::Fp8E5m2, 61440f64.next_down()), [0x7b]);
    for value in [61440.0, 1e300, f64::INFINITY] {
        assert_eq!(
            (encoded(DType::Fp8E5m2, value), encoded(DType::Fp8E5m2, -value)),
            (vec![0x7c], vec![0xfc])
        );
    }
    assert_eq!(encoded(DType::F16, 65520f64.next_down()), [0xff, 0x7b]);
    assert_eq!(encoded(DType::F16, 65520.0), [0x00, 0x7c]);
    assert_eq!(encoded(DType::Bf16, 1e39), [0x80, 0x7f]);
    assert_eq!(encoded(DType::F32, 1e39), f32::INFINITY.to_le_bytes());
}

#[test]
fn next_to_nothing_is_zero_with_its_sign() {
    for dtype in [DType::F16, DType::Bf16, DType::Fp8E4m3, DType::Fp8E5m2, DType::F32] {
        for value in [0.0, f64::from_bits(1), 1e-300] {
            assert!(same(dtype.decode(&encoded(dtype, value)), 0.0));
            assert!(same(dtype.decode(&encoded(dtype, -value)), -0.0));
        }
    }
}

#[test]
fn integers_lose_their_fraction_and_never_wrap() {
    assert_eq!(encoded(DType::I8, -128.9), [0x80]);
    assert_eq!(encoded(DType::U16, 65535.9), [0xff, 0xff]);
    assert_eq!(encoded(DType::U8, -0.9), [0]);
    assert_eq!(encoded(DType::I64, -2f64.powi(63)), i64::MIN.to_le_bytes());
    assert_eq!(encoded(DType::U64, 2f64.powi(64).next_down()), (u64::MAX << 11).to_le_bytes());
    let mut refused = 0;
    for (dtype, value) in [
        (DType::I8, 128.0),
        (DType::I8, -129.0),
        (DType::U8, 256.0),
        (DType::U8, -1.0),
        (DType::I16, 32768.0),
        (DType::U32, 4_294_967_296.0),
        (DType::I64, 2f64.powi(63)),
        (DType::U64, 2f64.powi(64)),
        (DType::I32, f64::NAN),
        (DType::U64, f64::INFINITY),
        (DType::I64, f64::NEG_INFINITY),
    ] {
        let mut bytes = vec![7];
        dtype.encode(value, &mut bytes).unwrap_err();
        assert_eq!(bytes, [7]);
        refused += 1;
    }
    assert_eq!(refused, 11);
    let error = DType::I8.encode(300.0, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "300 does not fit in i8, which ranges from -128 to 127");
}

#[test]
fn a_bool_is_whether_it_is_not_zero() {
    let bools = [0.0, -0.0, 0.5, f64::NAN].map(|value| encoded(DType::Bool, value)[0]);
    assert_eq!(bools, [0, 0, 1, 1]);
    assert_eq!((DType::Bool.decode(&[0]), DType::Bool.decode(&[9])), (0.0, 1.0));
}

#[test]
fn names_are_read_back_and_the_nearest_is_told() {
    for dtype in DType::ALL {
        assert_eq!(dtype.to_string().parse(), Ok(dtype));
        assert_eq!(encoded(dtype, 1.0).len(), dtype.width());
        assert_eq!(dtype.decode(&encoded(dtype, 1.0)).to_bits(), 1f64.to_bits());
    }
    assert_eq!(
        "fp8_e4m4".parse::<DType>().unwrap_err().to_string(),
        "expected one of f16, bf16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i16, i32, i64, u8, u16, u32, u64, bool; \
         found `fp8_e4m4`; the nearest is `fp8_e4m3`"
    );
    assert_eq!(DType::ALL.into_iter().filter(|dtype| dtype.is_float()).count(), 6);
}

/// Elements of a Rust type behave as its `DTYPE` specifies.
fn agree<T: Element + PartialOrd>(elements: &[T]) {
    let bytes = T::slice_to_bytes(elements);
    assert_eq!(bytes.len(), elements.len() * T::DTYPE.width());
    assert_eq!(T::slice_from_bytes(&bytes).unwrap(), elements);
    let values = bytes.chunks(T::DTYPE.width()).map(|bytes| T::DTYPE.decode(bytes));
    assert!(values.is_sorted(), "{}", T::DTYPE);
    assert!(bytes.len() == elements.len() || T::slice_from_bytes(&bytes[1..]).is_none());
}

#[test]
fn elements_of_rust_types_are_kept_as_they_are() {
    agree(&[f16::NEG_INFINITY, f16::MIN, f16::ZERO, f16::MAX]);
    agree(&[bf16::MIN, bf16::ZERO, bf16::MAX, bf16::INFINITY]);
    agree(&[f32::MIN, 0.1, f32::MAX]);
    agree(&[f64::MIN, 0.1, f64::MAX]);
    agree(&[i8::MIN, -1, i8::MAX]);
    agree(&[i16::MIN, -1, i16::MAX]);
    agree(&[i32::MIN, -1, i32::MAX]);
    agree(&[i64::MIN, -1, i64::MAX]);
    agree(&[0, 1, u8::MAX]);
    agree(&[0, 1, u16::MAX]);
    agree(&[0, 1, u32::MAX]);
    agree(&[0, 1, u64::MAX]);
    agree(&[false, true]);
}

proptest! {
    #[test]
    fn a_float_is_rounded_as_half_rounds_what_f32_holds(value: f32) {
        let wide = f64::from(value);
        prop_assume!(!value.is_nan());
        prop_assert_eq!(encoded(DType::F16, wide), f16::from_f32(value).to_le_bytes());
        prop_assert_eq!(encoded(DType::Bf16, wide), bf16::from_f32(value).to_le_bytes());
    }
}
