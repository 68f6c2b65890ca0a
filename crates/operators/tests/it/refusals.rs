//! Input that is refused, with the name of what is wrong.

use cubeyard_operators::{Attention, Convolution, RowWork, Tensor};

use crate::lab::{NONE, dense, product, small};

fn tensor(shape: &[i64], strides: &[i64], dtype: &str, bytes: u64) -> String {
    Tensor::new("operand 1", shape, strides, dtype, bytes).unwrap_err().to_string()
}

#[test]
fn a_tensor_that_cannot_be_is_named() {
    let cases = [
        (tensor(&[0], &[1], "float16", 2), "operand 1: size 0 of dimension 0"),
        (tensor(&[4], &[-1], "float16", 2), "operand 1: stride -1 of dimension 0"),
        (tensor(&[4], &[i64::MAX], "float16", 2), "operand 1: stride 9223372036854775807"),
        (tensor(&[1 << 40, 1 << 40], &[1 << 40, 1], "float16", 2), "operand 1: shape"),
        (tensor(&[1 << 45, 1 << 45], &[0, 0], "float16", 2), "operand 1: shape"),
        (tensor(&[4], &[1, 1], "float16", 2), "operand 1: 2 strides for 1 dimensions"),
        (tensor(&[4], &[1], "float17", 2), "found `float17`"),
        (tensor(&[4], &[1], "float16", 4), "elements of 4 bytes, but float16 has 2"),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let (machine, x) = (small(), dense(&[4, 6]));
    let texts = [
        machine.pointwise(&[dense(&[6, 4])], &[x.clone()], NONE).unwrap_err().to_string(),
        machine.pointwise(&[x.clone()], &[], NONE).unwrap_err().to_string(),
        product(&machine, x.clone(), x.clone(), [4, 6]).unwrap_err().to_string(),
        machine.reduce(&[x.clone()], &[dense(&[4])], &[2], NONE).unwrap_err().to_string(),
        machine
            .rows(&[x.clone()], &[x.clone()], RowWork { columns: 5, ..RowWork::default() })
            .unwrap_err()
            .to_string(),
        machine
            .attention(&[x.clone()], &[x.clone()], Attention::default())
            .unwrap_err()
            .to_string(),
        machine.gather(&[x.clone(), x.clone()], &[x.clone()], 5, 0).unwrap_err().to_string(),
        machine
            .convolution(&[x.clone(), x.clone()], &[x], &Convolution::default())
            .unwrap_err()
            .to_string(),
    ];
    let expected = [
        "operand 0",
        "results",
        "operand 1",
        "dims: 2",
        "columns: 5",
        "operands",
        "row: 5",
        "operand 1",
    ];
    for (text, expected) in texts.iter().zip(expected) {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn types_that_the_engines_lack_have_a_time() {
    let machine = small();
    for (dtype, bytes) in
        [("float64", 8), ("int64", 8), ("bool", 1), ("complex64", 8), ("complex128", 16)]
    {
        let x = crate::lab::typed(&[64, 64], dtype, bytes);
        let cost = machine.pointwise(&[x.clone()], &[x.clone()], NONE).unwrap();
        assert_eq!(cost.bytes, 2 * 64 * 64 * bytes, "{dtype}");
        if bytes < 16 {
            assert!(machine.product(&[x.clone(), x.clone()], &[x], NONE).is_ok(), "{dtype}");
        }
    }
}
