//! Every function of the language against plain loops over f64.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::Args;
use cubeyard_tl::numeric::{Binary, Reduce, Unary};
use cubeyard_tl::{Epilogue, Mask, Op, Source, Tile, Tl};
use proptest::prelude::*;

use crate::lab::{close, compute, product};

const ROWS: usize = 6;
const COLUMNS: usize = 20;
const SHAPE: &[u64] = &[6, 20];

/// Returns distinct numbers between 0.1 and 0.9.
fn values(seed: u64, count: usize) -> Vec<f32> {
    let value = |index: u64| {
        let bits = (index + seed * 1000 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        0.1 + 0.8 * bits as f32 / (1 << 24) as f32
    };
    (0..count as u64).map(value).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Compares the result of a function on two matrices with the expected result.
fn element_wise(
    function: impl Fn(&Tl, &Tile, &Tile) -> Tile + Copy + 'static,
    expected: fn(f64, f64) -> f64,
) {
    let (a, b) = (values(1, ROWS * COLUMNS), values(2, ROWS * COLUMNS));
    let wanted: Vec<f64> = wide(&a).iter().zip(wide(&b)).map(|(a, b)| expected(*a, b)).collect();
    let found = compute("", &[(SHAPE, a), (SHAPE, b)], (SHAPE, DType::F32), move |tl, args| {
        let [a, b] = [0, 1].map(|position| tl.load(&args.tensor(position).local()));
        let result = function(tl, &a, &b);
        let result =
            if result.ty().dtype == DType::F32 { result } else { tl.cast(&result, DType::F32) };
        tl.store(&args.tensor(2).local(), &result);
    });
    close(&found, &wanted, 2e-6);
}

/// Returns the whole part of a multiple, computed in f32.
#[expect(clippy::cast_possible_truncation, reason = "the numbers are f32's, and small")]
fn whole(x: f64, by: f32) -> i32 {
    (x as f32 * by) as i32
}

fn truth(of: bool) -> f64 {
    f64::from(u8::from(of))
}

#[test]
fn functions_of_each_element() {
    element_wise(|tl, a, _| tl.neg(a), |a, _| -a);
    element_wise(|tl, a, _| tl.abs(&tl.neg(a)), |a, _| a);
    element_wise(|tl, a, _| tl.exp(a), |a, _| a.exp());
    element_wise(|tl, a, _| tl.exp2(a), |a, _| a.exp2());
    element_wise(|tl, a, _| tl.log(a), |a, _| a.ln());
    element_wise(|tl, a, _| tl.log2(a), |a, _| a.log2());
    element_wise(|tl, a, _| tl.sqrt(a), |a, _| a.sqrt());
    element_wise(|tl, a, _| tl.rsqrt(a), |a, _| 1.0 / a.sqrt());
    element_wise(|tl, a, _| tl.sigmoid(a), |a, _| 1.0 / (1.0 + (-a).exp()));
    element_wise(|tl, a, _| tl.tanh(a), |a, _| a.tanh());
    element_wise(|tl, a, _| tl.erf(a), |a, _| series_erf(a));
    element_wise(|tl, a, _| tl.sin(a), |a, _| a.sin());
    element_wise(|tl, a, _| tl.cos(a), |a, _| a.cos());
    element_wise(|tl, a, _| tl.floor(&(a * 9.0)), |a, _| (a * 9.0).floor());
    element_wise(|tl, a, _| tl.ceil(&(a * 9.0)), |a, _| (a * 9.0).ceil());
    element_wise(|tl, a, _| tl.relu(&(a - 0.5)), |a, _| (a - 0.5).max(0.0));
    element_wise(|tl, a, b| tl.not(&tl.lt(a, b)), |a, b| truth(a >= b));
}

/// Computes the error function by its series, which converges quickly below 1.
fn series_erf(x: f64) -> f64 {
    let (mut sum, mut term) = (0.0, x);
    for n in 0..40 {
        sum += term / f64::from(2 * n + 1);
        term *= -x * x / f64::from(n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
#[expect(clippy::float_cmp, reason = "whether two numbers are equal is what is asked")]
fn functions_of_two_elements() {
    element_wise(|_, a, b| a + b, |a, b| a + b);
    element_wise(|_, a, b| a - b, |a, b| a - b);
    element_wise(|_, a, b| a * b, |a, b| a * b);
    element_wise(|_, a, b| a / b, |a, b| a / b);
    element_wise(|_, a, _| 1.0 - &(&(2.0 / a) * 3.0), |a, _| 1.0 - 2.0 / a * 3.0);
    element_wise(|_, a, _| -a, |a, _| -a);
    element_wise(|tl, a, b| tl.rem(a, b), |a, b| a - b * (a / b).floor());
    element_wise(|tl, a, b| tl.pow(a, b), f64::powf);
    element_wise(|tl, a, b| tl.maximum(a, b), f64::max);
    element_wise(|tl, a, b| tl.minimum(a, b), f64::min);
    element_wise(|tl, a, b| tl.eq(a, b), |a, b| truth(a == b));
    element_wise(|tl, a, b| tl.ne(a, b), |a, b| truth(a != b));
    element_wise(|tl, a, b| tl.lt(a, b), |a, b| truth(a < b));
    element_wise(|tl, a, b| tl.le(a, b), |a, b| truth(a <= b));
    element_wise(|tl, a, b| tl.gt(a, b), |a, b| truth(a > b));
    element_wise(|tl, a, b| tl.ge(a, b), |a, b| truth(a >= b));
}

#[test]
fn functions_of_bits() {
    let bits = |tl: &Tl, x: &Tile| tl.cast(&(x * 100.0), DType::I32);
    macro_rules! bits {
        ($($name:ident: $expected:expr;)*) => {
            $(element_wise(
                move |tl, a, b| tl.$name(&bits(tl, a), &bits(tl, b)),
                |a, b| {
                    let expected: fn(i32, i32) -> i32 = $expected;
                    f64::from(expected(whole(a, 100.0), whole(b, 100.0)))
                },
            );)*
        };
    }
    assert_eq!(whole(0.5, 100.0), 50);
    bits! {
        and: |a, b| a & b;
        or: |a, b| a | b;
        xor: |a, b| a ^ b;
        div: |a, b| a / b;
        rem: |a, b| a % b;
    }
    element_wise(move |tl, a, _| tl.shl(&bits(tl, a), 3), |a, _| f64::from(whole(a, 100.0) << 3));
    element_wise(move |tl, a, _| tl.shr(&bits(tl, a), 2), |a, _| f64::from(whole(a, 100.0) >> 2));
}

#[test]
fn functions_of_three_elements() {
    element_wise(|tl, a, b| tl.where_(&tl.lt(a, b), a, 7.0), |a, b| if a < b { a } else { 7.0 });
    element_wise(|tl, a, b| tl.fma(a, b, 0.5), |a, b| a.mul_add(b, 0.5));
    element_wise(|tl, a, _| tl.clamp(a, 0.3, 0.6), |a, _| a.clamp(0.3, 0.6));
}

/// Compares the result of a function on a matrix, as a matrix of this shape, with the expected result.
fn of_matrix(
    shape: &[u64],
    function: impl Fn(&Tl, &Tile) -> Tile + Copy + 'static,
    expected: impl Fn(&[f64]) -> Vec<f64>,
) {
    let x = values(3, ROWS * COLUMNS);
    let wanted = expected(&wide(&x));
    let shape_of = shape.to_vec();
    let shape_of: &'static [u64] = Box::leak(shape_of.into_boxed_slice());
    let found = compute("", &[(SHAPE, x)], (shape, DType::F32), move |tl, args| {
        let result = function(tl, &tl.load(&args.tensor(0).local()));
        let result =
            if result.ty().dtype == DType::F32 { result } else { tl.cast(&result, DType::F32) };
        tl.store(
            &tl.ref_(args.tensor(1).local().address(), shape_of, DType::F32),
            &tl.reshape(&result, shape_of),
        );
    });
    close(&found, &wanted, 5e-6);
}

fn by_row(x: &[f64], of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    x.chunks(COLUMNS).map(of).collect()
}

fn place_of(row: &[f64], better: fn(f64, f64) -> bool) -> f64 {
    let best =
        (1..row.len()).fold(0, |best, at| if better(row[at], row[best]) { at } else { best });
    best as f64
}

#[test]
fn reductions() {
    of_matrix(&[6], |tl, x| tl.sum(x, 1), |x| by_row(x, |row| row.iter().sum()));
    of_matrix(&[6, 1], |tl, x| tl.sum_keep(x, 1), |x| by_row(x, |row| row.iter().sum()));
    of_matrix(&[6], |tl, x| tl.prod(x, 1), |x| by_row(x, |row| row.iter().product()));
    of_matrix(
        &[6],
        |tl, x| tl.max(x, 1),
        |x| by_row(x, |row| row.iter().copied().fold(0.0, f64::max)),
    );
    of_matrix(
        &[6],
        |tl, x| tl.min(x, 1),
        |x| by_row(x, |row| row.iter().copied().fold(9.0, f64::min)),
    );
    of_matrix(&[6], |tl, x| tl.argmax(x, 1), |x| by_row(x, |row| place_of(row, |a, b| a > b)));
    of_matrix(&[6], |tl, x| tl.argmin(x, 1), |x| by_row(x, |row| place_of(row, |a, b| a < b)));
    let columns =
        |x: &[f64]| (0..COLUMNS).map(|c| x.iter().skip(c).step_by(COLUMNS).sum()).collect();
    of_matrix(&[20], |tl, x| tl.sum(x, 0), columns);
    let xor = |row: &[f64]| f64::from(row.iter().fold(0, |all, x| all ^ whole(*x, 50.0)));
    of_matrix(&[6], |tl, x| tl.xor_sum(&tl.cast(&(x * 50.0), DType::I32), 1), |x| by_row(x, xor));
}

fn scanned(x: &[f64], join: fn(f64, f64) -> f64) -> Vec<f64> {
    let row = |row: &[f64]| {
        let mut sum = None;
        let next = |&value: &f64| *sum.insert(sum.map_or(value, |sum| join(sum, value)));
        row.iter().map(next).collect::<Vec<_>>()
    };
    x.chunks(COLUMNS).flat_map(row).collect()
}

#[test]
fn scans_and_softmax() {
    of_matrix(SHAPE, |tl, x| tl.cumsum(x, 1), |x| scanned(x, |a, b| a + b));
    of_matrix(SHAPE, |tl, x| tl.cumprod(x, 1), |x| scanned(x, |a, b| a * b));
    of_matrix(
        SHAPE,
        |tl, x| tl.softmax(x, 1),
        |x| {
            let softmax = |row: &[f64]| {
                let sum: f64 = row.iter().map(|x| x.exp()).sum();
                row.iter().map(|x| x.exp() / sum).collect::<Vec<_>>()
            };
            x.chunks(COLUMNS).flat_map(softmax).collect()
        },
    );
}

fn transposed(x: &[f64]) -> Vec<f64> {
    (0..COLUMNS).flat_map(|c| (0..ROWS).map(move |r| x[r * COLUMNS + c])).collect()
}

#[test]
fn elements_in_other_places() {
    of_matrix(&[20, 6], |tl, x| tl.trans(x), transposed);
    of_matrix(&[20, 6], |tl, x| tl.permute(x, &[1, 0]), transposed);
    of_matrix(&[4, 30], |tl, x| tl.reshape(x, &[4, 30]), <[f64]>::to_vec);
    let part =
        |x: &[f64]| (2..4).flat_map(|r| x[r * COLUMNS + 5..r * COLUMNS + 9].to_vec()).collect();
    of_matrix(&[2, 4], |tl, x| tl.slice(x, &[2, 5], &[2, 4]), part);
    of_matrix(
        SHAPE,
        |tl, x| tl.paste(x, &[1, 2], &tl.zeros(&[2, 3], DType::F32)),
        |x| {
            let mut x = x.to_vec();
            (1..3).for_each(|r| x[r * COLUMNS + 2..r * COLUMNS + 5].fill(0.0));
            x
        },
    );
    of_matrix(
        &[3, 20],
        |tl, x| tl.broadcast_to(&tl.slice(x, &[0, 0], &[1, 20]), &[3, 20]),
        |x| x[..COLUMNS].repeat(3),
    );
    of_matrix(SHAPE, |_, x| &(x - x) + x, <[f64]>::to_vec);
    of_matrix(&[20], |tl, _| tl.arange(3.0, 20, DType::F32), |_| (3..23).map(f64::from).collect());
    of_matrix(&[4], |tl, _| tl.full(&[4], 2.5, DType::F32), |_| vec![2.5; 4]);
    let row = |tl: &Tl, x: &Tile| &tl.sum_keep(x, 1) * &tl.arange(0.0, 20, DType::F32);
    of_matrix(SHAPE, row, |x| {
        x.chunks(COLUMNS)
            .flat_map(|r| (0..20).map(|c| r.iter().sum::<f64>() * f64::from(c)))
            .collect()
    });
}

#[test]
fn casts() {
    of_matrix(
        SHAPE,
        |tl, x| tl.cast(&tl.cast(&(x * 9.0), DType::I8), DType::F32),
        |x| x.iter().map(|x| f64::from(whole(*x, 9.0))).collect(),
    );
    for dtype in [DType::F16, DType::Bf16, DType::F64, DType::Fp8E4m3, DType::I64] {
        let narrow =
            move |tl: &Tl, x: &Tile| tl.cast(&tl.cast(&tl.floor(&(x * 8.0)), dtype), DType::F32);
        of_matrix(SHAPE, narrow, |x| x.iter().map(|x| (x * 8.0).floor()).collect());
    }
}

#[test]
fn masks_and_strides() {
    // A mask of every third element, an empty mask, and a transposed view.
    of_matrix(SHAPE, |tl, x| tl.where_(&tl.lt(x, 2.0), x, 0.0), <[f64]>::to_vec);
    let x = values(4, ROWS * COLUMNS);
    let third = |at: usize, x: f64| if (at % COLUMNS).is_multiple_of(3) { x } else { -1.0 };
    let wanted: Vec<f64> = wide(&x).into_iter().enumerate().map(|(at, x)| third(at, x)).collect();
    for engines in [1, 4] {
        let text = format!("pe:\n  core:\n    dma_read_engines: {engines}\n");
        let found = compute(&text, &[(SHAPE, x.clone())], (SHAPE, DType::F32), |tl, args| {
            let x = args.tensor(0).local();
            let mask = Mask::new(SHAPE, |index| index[1] % 3 == 0);
            let none = Mask::new(SHAPE, |_| false);
            let nothing = tl.load_masked(&x, &none, 0.0);
            let result = &tl.load_masked(&x, &mask, -1.0) + &nothing;
            let out = args.tensor(1).local();
            tl.store(&out, &result);
            tl.store_masked(&out, &nothing, &none);
            tl.store_masked(&out, &result, &mask);
        });
        close(&found, &wanted, 0.0);
    }
    let found = compute("", &[(SHAPE, x.clone())], (&[20, 6], DType::F32), |tl, args| {
        let column = args.tensor(0).local().transposed();
        tl.store(&args.tensor(1).local(), &tl.load(&column));
    });
    close(&found, &transposed(&wide(&x)), 0.0);
}

/// Checks a product of f32 matrices of 40 × 70 and 70 × 33, as computed by a kernel.
fn gemm(body: impl Fn(&Tl, &Args) + Copy + 'static, expected: fn(f64, usize, usize) -> f64) {
    let (a, b) = (values(5, 40 * 70), values(6, 70 * 33));
    let wanted = product(&wide(&a), &wide(&b), [40, 70, 33]);
    let wanted: Vec<_> =
        wanted.iter().enumerate().map(|(at, value)| expected(*value, at / 33, at % 33)).collect();
    let inputs: [(&[u64], _); 2] = [(&[40, 70], a), (&[70, 33], b)];
    for engines in ["shared", "separate"] {
        let text = format!("pe: {{core: {{compute_engines: {engines}}}}}\n");
        close(&compute(&text, &inputs, (&[40, 33], DType::F32), body), &wanted, 1e-5);
    }
}

#[test]
fn products_with_epilogues() {
    gemm(
        |tl, args| {
            let [a, b] = [0, 1].map(|position| tl.load(&args.tensor(position).local()));
            let zero = tl.zeros(&[40, 33], DType::F32);
            tl.store(&args.tensor(2).local(), &tl.dot_add(&a, &b, &(&zero + &tl.dot(&a, &b))));
        },
        |value, _, _| 2.0 * value,
    );
    // At the end of a tile: an added row, then a selection; operands in memory and pinned.
    gemm(
        |tl, args| {
            let b = tl.load(&args.tensor(1).local());
            let row = tl.arange(0.0, 33, DType::F32);
            tl.gemm(&args.tensor(0).local(), &b)
                .after_tile(Epilogue::With(Binary::Add, row))
                .after_tile(Epilogue::Scale(Binary::Sub, 20.0.into()))
                .after_tile(Epilogue::Unary(Unary::Relu))
                .ahead(3)
                .store(&args.tensor(2).local());
        },
        |value, _, column| (value + column as f64 - 20.0).max(0.0),
    );
    // After each of two steps of 64 and 6: doubled, so that the first step counts four times.
    gemm(
        |tl, args| {
            let (a, b) = (args.tensor(0).local(), args.tensor(1).local());
            let last = tl
                .gemm(&a.block(&[0, 64], &[40, 6]), &b.block(&[64, 0], &[6, 33]))
                .tile(DType::F32);
            let steps = tl
                .gemm(&a, &b)
                .after_step(Epilogue::Scale(Binary::Mul, 2.0.into()))
                .tile(DType::F32);
            // 4 s + 2 l, where l is known: (4 s + 2 l + 2 l) / 4.
            tl.store(&args.tensor(2).local(), &(&(&steps + &(&last * 2.0)) * 0.25));
        },
        |value, _, _| value,
    );
    // At the very end, with an output that stays in the TCM.
    gemm(
        |tl, args| {
            let [a, b] = [0, 1].map(|position| args.tensor(position).local());
            let large = tl.full(&[40, 33], 3.0, DType::F32);
            let c = tl
                .gemm(&a, &b)
                .at_the_end(Epilogue::With(Binary::Mul, large))
                .at_the_end(Epilogue::Unary(Unary::Neg))
                .tile(DType::F32);
            tl.store(&args.tensor(2).local(), &c);
        },
        |value, _, _| -3.0 * value,
    );
}

#[test]
fn maps_and_reductions_tile_by_tile() {
    let map = |tl: &Tl, args: &Args| {
        let (a, b) = (args.tensor(0).local(), args.tensor(1).local());
        let b = tl.load(&b);
        let handle = tl
            .map(Op::Binary(Binary::Mul), vec![Source::from(&a), Source::from(&b)])
            .tiles(4, 7)
            .after_tile(Epilogue::Scale(Binary::Add, 1.0.into()))
            .store(&args.tensor(2).local());
        drop(tl.wait(&handle));
    };
    let (a, b) = (values(7, ROWS * COLUMNS), values(8, ROWS * COLUMNS));
    let wanted: Vec<_> = wide(&a).iter().zip(wide(&b)).map(|(a, b)| a * b + 1.0).collect();
    close(&compute("", &[(SHAPE, a.clone()), (SHAPE, b)], (SHAPE, DType::F32), map), &wanted, 1e-6);
    let reduce = |tl: &Tl, args: &Args| {
        let x = args.tensor(0).local();
        tl.reduce_rows(Reduce::Sum, &x).tiles(4, 7).store(&args.tensor(1).local());
    };
    let wanted = by_row(&wide(&a), |row| row.iter().sum());
    close(&compute("", &[(SHAPE, a.clone())], (&[6, 1], DType::F32), reduce), &wanted, 1e-6);
    let largest = |tl: &Tl, args: &Args| {
        let x = tl.load(&args.tensor(0).local());
        let top = tl.reduce_rows(Reduce::Max, &x).tiles(2, 3).tile(DType::F32);
        tl.store(&args.tensor(1).local(), &top);
    };
    let wanted = by_row(&wide(&a), |row| row.iter().copied().fold(0.0, f64::max));
    close(&compute("", &[(SHAPE, a)], (&[6, 1], DType::F32), largest), &wanted, 0.0);
}

/// Regression: indices of several tiles, each counted from its own tile, were combined by xor.
#[test]
fn indices_of_the_greatest_and_least_elements_count_from_the_start_of_the_row() {
    let columns = 13;
    // Rows with ties in several tiles, extremes in the first and in the last tile, and a NaN.
    let numbers = values(9, 4 * columns).into_iter().map(|value| (value * 4.0).round());
    let mut numbers: Vec<_> = numbers.collect();
    numbers[..columns].fill(1.0);
    [numbers[columns], numbers[columns + 12]] = [90.0, -90.0];
    [numbers[2 * columns + 4], numbers[2 * columns + 9]] = [f32::NAN, 90.0];
    let shape: &[u64] = &[4, 13];
    for (reduce, is_better) in
        [(Reduce::Argmax, f32::gt as fn(&f32, &f32) -> bool), (Reduce::Argmin, f32::lt)]
    {
        let better =
            |next: f32, best: f32| !best.is_nan() && (next.is_nan() || is_better(&next, &best));
        let found = |row: &[f32]| {
            let step = |best: usize, next| if better(row[next], row[best]) { next } else { best };
            (1..columns).fold(0, step) as f64
        };
        let wanted: Vec<_> = numbers.chunks_exact(columns).map(found).collect();
        for tile in [[4, 13], [2, 5], [3, 1]] {
            let kernel = move |tl: &Tl, args: &Args| {
                let x = args.tensor(0).local();
                let to = args.tensor(1).local();
                tl.reduce_rows(reduce, &x).tiles(tile[0], tile[1]).store(&to);
            };
            let found = compute("", &[(shape, numbers.clone())], (&[4, 1], DType::I32), kernel);
            assert_eq!(found, wanted, "{reduce:?} in tiles of {tile:?}");
        }
    }
}

/// Runs the next steps of a random kernel on the tiles it has.
fn random(steps: &'static [(u8, usize, usize)]) -> impl Fn(&Tl, &Args) + Copy + 'static {
    move |tl, args| {
        let (x, out) = (args.tensor(0).local(), args.tensor(1).local());
        let mut tiles = vec![tl.load(&x)];
        for &(kind, one, other) in steps {
            let [a, b] = [one, other].map(|index| tiles[index % tiles.len()].clone());
            tiles.push(match kind {
                0 => tl.load(&x),
                1 => &a + &b,
                2 => tl.maximum(&a, &b),
                3 => tl.softmax(&a, 1),
                4 => tl.gemm(&x, &tl.trans(&a)).tile(DType::F32).tl_slice(tl),
                5 => {
                    tl.store(&out, &a);
                    tl.load(&out)
                }
                _ => &tl.exp(&tl.minimum(&a, 1.0)) * &tl.sum_keep(&tl.minimum(&b, 1.0), 1),
            });
            if tiles.len() > 4 {
                tiles.remove(one % tiles.len());
            }
        }
        tl.store(&out, tiles.last().unwrap());
    }
}

trait TlSlice {
    fn tl_slice(&self, tl: &Tl) -> Tile;
}

/// A product of 6 × 6, extended to the width of the other tiles.
impl TlSlice for Tile {
    fn tl_slice(&self, tl: &Tl) -> Tile {
        tl.paste(&tl.zeros(SHAPE, DType::F32), &[0, 0], self)
    }
}

/// Runs the same kernel without overlap: a window of one command, and one engine.
fn one_by_one(steps: &'static [(u8, usize, usize)]) -> Vec<f64> {
    let text = "pe:\n  core:\n    window: 1\n";
    compute(text, &[(SHAPE, values(9, ROWS * COLUMNS))], (SHAPE, DType::F32), random(steps))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// However much of a kernel overlaps, its results equal one command at a time; recorded and live runs take the same
    /// time.
    #[test]
    fn random_kernels_give_the_same_whatever_overlaps(
        steps in proptest::collection::vec((0..7_u8, 0..9_usize, 0..9_usize), 1..20),
        compute_engines in prop_oneof![Just("shared"), Just("separate")],
    ) {
        let steps: &'static [_] = Box::leak(steps.into_boxed_slice());
        let text = format!(
            "pe:\n  core:\n    window: 8\n    dma_read_engines: 3\n    dma_write_engines: 2\n    \
             compute_engines: {compute_engines}\n"
        );
        let input = values(9, ROWS * COLUMNS);
        let found = compute(&text, &[(SHAPE, input)], (SHAPE, DType::F32), random(steps));
        let expected = one_by_one(steps);
        prop_assert!(found.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
