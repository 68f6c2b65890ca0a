use proptest::prelude::*;

use super::*;

fn refused(text: &str) -> String {
    text.parse::<Shape>().unwrap_err().to_string()
}

#[test]
fn a_scalar_has_one_element_and_no_dimensions() {
    assert_eq!(Shape::new(&[]), Ok(Shape::SCALAR));
    assert_eq!((Shape::SCALAR.elements(), Shape::SCALAR.matrix()), (1, (1, 1)));
    assert_eq!(Shape::SCALAR.strides(), [0u64; 0]);
    assert_eq!("scalar".parse(), Ok(Shape::SCALAR));
    assert_eq!(Shape::SCALAR.to_string(), "scalar");
}

#[test]
fn a_vector_is_a_column_and_a_matrix_is_itself() {
    assert_eq!(Shape::new(&[7]).unwrap().matrix(), (7, 1));
    assert_eq!(Shape::new(&[1, 7]).unwrap().matrix(), (1, 7));
    assert_eq!(Shape::new(&[2, 3, 4, 5]).unwrap().matrix(), (24, 5));
}

#[test]
fn there_are_eight_dimensions_and_no_ninth() {
    assert_eq!(Shape::new(&[1; 8]).unwrap().rank(), 8);
    assert_eq!(refused("1x1x1x1x1x1x1x1x1"), "a shape has at most 8 dimensions; this one has 9");
}

#[test]
fn a_dimension_of_nothing_leaves_no_elements() {
    let shape: Shape = "4x0x2".parse().unwrap();
    assert_eq!((shape.elements(), shape.matrix(), shape.strides()), (0, (0, 2), vec![0, 2, 1]));
    assert_eq!(Shape::new(&[3, 0]).unwrap().matrix(), (3, 0));
    assert_eq!(shape.reshape(&[0]).unwrap().matrix(), (0, 1));
    assert!(shape.reshape(&[1]).is_err());
    // The other dimensions must have a countable product nevertheless, in any order.
    for huge in [[u64::MAX, u64::MAX, 0], [0, u64::MAX, u64::MAX]] {
        assert!(matches!(Shape::new(&huge), Err(ShapeError::Overflow { .. })));
    }
}

#[test]
fn elements_and_bytes_are_counted_up_to_64_bits_and_no_further() {
    assert_eq!(Shape::new(&[u64::MAX]).unwrap().elements(), u64::MAX);
    assert_eq!(
        Shape::new(&[1 << 32, (1 << 32) - 1]).unwrap().elements(),
        u64::MAX - u64::from(u32::MAX)
    );
    assert_eq!(
        refused("4294967296x4294967296"),
        "4294967296x4294967296 has more elements than 64 bits can count"
    );
    let shape = Shape::new(&[1 << 61]).unwrap();
    assert_eq!(shape.nbytes(DType::F32), Ok(1 << 63));
    assert!(matches!(shape.nbytes(DType::F64), Err(ShapeError::Overflow { .. })));
}

#[test]
fn what_is_no_shape_is_refused() {
    for text in [
        "",
        "x",
        "4x",
        "x4",
        "4xx4",
        "-1",
        "+4",
        "4 x 4",
        "4X4",
        "4,4",
        "1e3",
        "18446744073709551616",
    ] {
        assert_eq!(
            refused(text),
            format!(
                "expected dimensions such as 4096x4096, each below 2^64, or scalar; found `{text}`"
            )
        );
    }
    assert!(refused(&"é\n".repeat(1000)).len() < 400);
}

#[test]
fn a_shape_takes_others_of_as_many_elements() {
    let shape = Shape::new(&[6, 4]).unwrap();
    assert_eq!(shape.reshape(&[2, 2, 6]).unwrap().elements(), 24);
    assert_eq!(
        shape.reshape(&[5, 5]).unwrap_err().to_string(),
        "6x4 has 24 elements, but 5x5 has 25"
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read(sizes in prop::collection::vec(0..200u64, 0..=8)) {
        let shape = Shape::new(&sizes).unwrap();
        prop_assert_eq!(shape.to_string().parse(), Ok(shape));
        prop_assert_eq!(shape.dimensions(), &sizes);
    }

    #[test]
    fn strides_are_products_of_what_follows(sizes in prop::collection::vec(0..50u64, 0..=8)) {
        let shape = Shape::new(&sizes).unwrap();
        for (place, stride) in shape.strides().into_iter().enumerate() {
            prop_assert_eq!(stride, sizes[place + 1..].iter().product::<u64>());
        }
    }
}
