//! Products of tiles: types, scales, batches and results, against loops in `f64`.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::{Dot, Tile, Tl};

use crate::lab::{compute, context, kernel, one, place, run, tensors};

/// Small whole numbers and halves, which every type in these tests can represent; sums of their products are exact in
/// `f32`.
fn values(count: u64, seed: u64, whole: bool) -> Vec<f32> {
    let value = |index: u64| {
        let bits = (index + seed * 1000 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
        let number = bits as f32 - 7.0;
        if whole { number } else { number / 2.0 }
    };
    (0..count).map(value).collect()
}

/// Computes a product of batches, element by element.
fn slow(left: &[f64], right: &[f64], [batch, m, k, n]: [usize; 4]) -> Vec<f64> {
    let mut out = Vec::new();
    for each in 0..batch {
        for row in 0..m {
            for column in 0..n {
                let term =
                    |i: usize| left[(each * m + row) * k + i] * right[(each * k + i) * n + column];
                out.push((0..k).map(term).sum());
            }
        }
    }
    out
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Returns the nearest number of a type to a value, through its bits.
fn rounded(dtype: DType, value: f64) -> f64 {
    let mut bytes = Vec::new();
    dtype.encode(value, &mut bytes).unwrap();
    dtype.decode(&bytes)
}

#[test]
fn products_of_every_pair_of_types_are_those_of_loops() {
    use DType::{Bf16, F16, F32, Fp8E4m3, Fp8E5m2, I8, I32};
    let (a, b) = (values(6 * 10, 1, true), values(10 * 5, 2, true));
    let pairs = [
        (Fp8E4m3, Fp8E5m2, F32),
        (Fp8E5m2, Fp8E4m3, F32),
        (Fp8E5m2, F16, F32),
        (Bf16, Fp8E4m3, F32),
        (I8, I8, I32),
        (F16, F16, F32),
    ];
    for (left, right, result) in pairs {
        let inputs = [(&[6, 10][..], a.clone()), (&[10, 5][..], b.clone())];
        let found = compute("", &inputs, (&[6, 5], result), move |tl, args| {
            let [a, b] = [(0, left), (1, right)]
                .map(|(position, dtype)| tl.cast(&tl.load(&args.tensor(position).local()), dtype));
            let product = tl.dot(&a, &b);
            assert_eq!(product.ty().dtype, result);
            tl.store(&args.tensor(2).local(), &product);
        });
        let [a, b] = [(&a, left), (&b, right)].map(|(all, dtype)| {
            wide(all).into_iter().map(|of| rounded(dtype, of)).collect::<Vec<_>>()
        });
        assert_eq!(found, slow(&a, &b, [1, 6, 10, 5]), "{left} {right}");
    }
}

#[test]
fn a_result_of_16_bits_is_the_sum_rounded_once() {
    let (a, b) = (values(8 * 700, 3, false), values(700 * 6, 4, false));
    let sums = slow(&wide(&a), &wide(&b), [1, 8, 700, 6]);
    let start = values(8 * 6, 5, false);
    for dtype in [DType::F16, DType::Bf16] {
        let inputs =
            [(&[8, 700][..], a.clone()), (&[700, 6][..], b.clone()), (&[8, 6][..], start.clone())];
        for adds in [false, true] {
            let found = compute("", &inputs, (&[8, 6], dtype), move |tl, args| {
                let [a, b, start] =
                    [0, 1, 2].map(|position| tl.load(&args.tensor(position).local()));
                let [a, b] = [a, b].map(|tile| tl.cast(&tile, DType::F16));
                let start = tl.cast(&start, dtype);
                let accumulator = adds.then_some(&start);
                let out =
                    tl.dot_with(&a, &b, Dot { accumulator, out: Some(dtype), ..Dot::default() });
                tl.store(&args.tensor(3).local(), &out);
            });
            let begin = |index: usize| if adds { f64::from(start[index]) } else { 0.0 };
            let wanted: Vec<_> =
                sums.iter().enumerate().map(|(i, sum)| rounded(dtype, sum + begin(i))).collect();
            assert_eq!(found, wanted, "{dtype} {adds}");
        }
    }
}

/// Shapes of the scales of both operands, if present, for 4 × 12 and 12 × 6 matrices.
const SCALES: [[Option<[u64; 2]>; 2]; 5] = [
    [Some([4, 1]), Some([1, 6])],
    [Some([4, 3]), Some([3, 6])],
    [Some([2, 3]), Some([3, 2])],
    [None, Some([1, 1])],
    [Some([4, 12]), None],
];

#[test]
fn scales_of_rows_and_blocks_multiply_their_elements() {
    let (a, b) = (values(4 * 12, 6, true), values(12 * 6, 7, true));
    let scales = [values(48, 8, false), values(72, 9, false)];
    for shapes in SCALES {
        for types in
            [[DType::I8, DType::I8], [DType::Fp8E4m3, DType::F16], [DType::F16, DType::F16]]
        {
            let mut inputs = vec![(&[4, 12][..], a.clone()), (&[12, 6][..], b.clone())];
            let shapes: &'static [Option<[u64; 2]>; 2] = Box::leak(Box::new(shapes));
            for (shape, all) in shapes.iter().zip(&scales) {
                let shape: &[u64] = shape.as_ref().map_or(&[1, 1], |shape| shape);
                let count: u64 = shape.iter().product();
                inputs.push((shape, all[..usize::try_from(count).unwrap()].to_vec()));
            }
            let found = compute("", &inputs, (&[4, 6], DType::F32), move |tl, args| {
                let tile = |position: usize| tl.load(&args.tensor(position).local());
                let [a, b] = [0, 1].map(|position| tl.cast(&tile(position), types[position]));
                let scales = [2, 3].map(tile);
                let of = |index: usize| shapes[index].map(|_| &scales[index]);
                let out = tl.dot_with(&a, &b, Dot { scales: [of(0), of(1)], ..Dot::default() });
                tl.store(&args.tensor(4).local(), &out);
            });
            let dequantised =
                |values: &[f32], index: usize, [rows, columns]: [u64; 2]| -> Vec<f64> {
                    let Some([down, right]) = shapes[index] else { return wide(values) };
                    let factor = |row: u64, column: u64| {
                        let place = row / (rows / down) * right + column / (columns / right);
                        f64::from(scales[index][usize::try_from(place).unwrap()])
                    };
                    let places =
                        (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
                    places
                        .zip(values)
                        .map(|((row, column), of)| f64::from(*of) * factor(row, column))
                        .collect()
                };
            let wanted =
                slow(&dequantised(&a, 0, [4, 12]), &dequantised(&b, 1, [12, 6]), [1, 4, 12, 6]);
            assert_eq!(found, wanted, "{shapes:?} {types:?}");
        }
    }
}

#[test]
fn a_batch_is_a_product_of_each_pair() {
    let (a, b) = (values(3 * 5 * 7, 10, false), values(3 * 7 * 4, 11, false));
    let wanted = slow(&wide(&a), &wide(&b), [3, 5, 7, 4]);
    let inputs = [(&[3, 5, 7][..], a), (&[3, 7, 4][..], b)];
    for dtype in [DType::F16, DType::F32] {
        let found = compute("", &inputs, (&[3, 5, 4], DType::F32), move |tl, args| {
            // A PE's part of a tensor is always a matrix.
            let [a, b] = [(0, [3, 5, 7]), (1, [3, 7, 4])].map(|(position, shape)| {
                let tile = tl.cast(&tl.load(&args.tensor(position).local()), dtype);
                tl.reshape(&tile, &shape)
            });
            tl.store(&args.tensor(2).local(), &tl.reshape(&tl.dot(&a, &b), &[15, 4]));
        });
        assert_eq!(found, wanted);
    }
}

/// Returns the time of a kernel that creates two tiles without loads and multiplies them.
fn time(shapes: [&'static [u64]; 2], product: fn(&Tl, &Tile, &Tile) -> Tile) -> u64 {
    let context = context("", false);
    let kernel = kernel("product", move |tl, _| {
        let [a, b] = shapes.map(|shape| tl.zeros(shape, DType::F16));
        product(tl, &a, &b);
    });
    run(&Launcher::new(&context), &kernel, Vec::new()).unwrap().max().ps()
}

/// Times in ps, with the published 512 GB/s and 8 TFLOP/s for tiles of 32 × 64 × 32.
#[test]
fn costs_of_products_are_those_of_the_page() {
    let tile = 16_384;
    let fetch = |bytes: u64| (bytes * 1000).div_ceil(512);
    // 8 tiles; each fetches 8 KiB in 16 ns and computes for longer.
    let plain = time([&[64, 128], &[128, 64]], Tl::dot);
    let narrow = time([&[64, 128], &[128, 64]], |tl, a, b| tl.dot_as(a, b, DType::Bf16));
    // The store of the last tile: 64 × 64 × 4 / 8 bytes, or half of that.
    assert_eq!(plain - narrow, fetch(64 * 64 * 4 / 8) - fetch(64 * 64 * 2 / 8));
    let batch = time([&[4, 64, 128], &[4, 128, 64]], Tl::dot);
    let made = |elements: u64| 2 * (elements * 1000).div_ceil(256);
    let zeros = made(4 * 64 * 128) - made(64 * 128);
    assert_eq!(batch - plain, zeros + 3 * 8 * tile);
    // Scales: 64 and 64 numbers of 4 bytes over 8 tiles; 8,192 + 64 bytes take 16,125 ps, still less than the
    // computation.
    let scaled = time([&[64, 128], &[128, 64]], |tl, a, b| {
        let [rows, columns] = [[64, 1], [1, 64]].map(|shape| tl.zeros(&shape, DType::F32));
        tl.fence();
        tl.dot_scaled(a, &rows, b, &columns)
    });
    let unscaled = time([&[64, 128], &[128, 64]], |tl, a, b| {
        let _unused = [[64, 1], [1, 64]].map(|shape| tl.zeros(&shape, DType::F32));
        tl.fence();
        tl.dot(a, b)
    });
    assert_eq!(
        scaled - unscaled,
        fetch(8192 + 2 * 32) - fetch(8192),
        "the fetch of the first tile"
    );
}

type Body = fn(&Tl, &Tile) -> Tile;

fn refusal(body: Body) -> String {
    let context = context("", false);
    let x = place(&context, &[4, 4], &[1.0_f32; 16]);
    let out = context.empty(&[4, 4], DType::F32).unwrap().to(&one()).unwrap();
    let kernel = kernel("refused", move |tl, args| {
        body(tl, &tl.load(&args.tensor(0).local()));
    });
    run(&Launcher::new(&context), &kernel, tensors(&[&x, &out])).unwrap_err().to_string()
}

#[test]
fn products_that_are_none_are_refused_with_their_line() {
    let cases: [(Body, &str); 6] = [
        (|tl, x| tl.dot_as(x, x, DType::I8), "dot into i8: its sum is f32"),
        (
            |tl, x| {
                let whole = tl.cast(x, DType::I8);
                tl.dot_as(&whole, &whole, DType::F16)
            },
            "dot into f16: its sum is i32",
        ),
        (
            |tl, x| tl.dot_scaled(x, &tl.zeros(&[3, 1], DType::F32), x, x),
            "dot_scaled of f32[4, 4] with scales f32[3, 1]: expected f32, f16 or bf16, and lengths that divide",
        ),
        (
            |tl, x| tl.dot_scaled(&tl.cast(x, DType::I16), x, x, x),
            "dot_scaled of i16[4, 4]: not defined for i16",
        ),
        (
            |tl, x| tl.dot(x, &tl.reshape(x, &[1, 4, 4])),
            "dot of f32[4, 4] and f32[1, 4, 4]: expected two matrices, or two batches of as many",
        ),
        (
            |tl, x| tl.dot(&tl.reshape(x, &[2, 2, 4]), &tl.reshape(x, &[2, 2, 4])),
            "dot of f32[2, 2, 4] and f32[2, 2, 4]: 4 columns against 2 rows",
        ),
    ];
    for (body, expected) in cases {
        let error = refusal(body);
        assert!(error.contains(expected) && error.contains("dot.rs:"), "{error}");
    }
}
