//! Epilogues of integer products: dequantisation scales are floats.

#![expect(clippy::many_single_char_names, reason = "names of matrices and their edges")]

use cubeyard_runtime::dtype::{DType, Element};
use cubeyard_tl::kernel::Args;
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::numeric::{Binary, Unary};
use cubeyard_tl::{Composite, Epilogue, Tl};

use crate::lab::{context, kernel, one, place, run, tensors};

const SHAPE: [usize; 3] = [40, 96, 50];

/// Returns the elements of a quantised matrix, from -9 to 9.
fn quantised(count: usize, seed: usize) -> Vec<i8> {
    let number = |at: usize| i8::try_from((at * 31 + seed * 17) % 19).unwrap() - 9;
    (0..count).map(number).collect()
}

/// Returns scales with fractional parts.
fn scales(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at % 13) as f32 * 0.0625 + 0.03125).collect()
}

fn whole(args: &Args, position: usize) -> cubeyard_tl::Ref {
    args.tensor(position).local()
}

/// Runs a kernel whose arguments are A and B of i8, a scale per row, a scale per column, a bias of i32 and the result.
fn dequantised<T: Element>(finish: impl Fn(&Tl, &Args, Composite) + Copy + 'static) -> Vec<T> {
    let [m, k, n] = SHAPE;
    let mut results = Vec::new();
    for mode in [Mode::Recorded, Mode::Live] {
        let context = context("", true);
        let size = |count: usize| count as u64;
        let a = place(&context, &[size(m), size(k)], &quantised(m * k, 1));
        let b = place(&context, &[size(k), size(n)], &quantised(k * n, 2));
        let rows = place(&context, &[size(m), 1], &scales(m));
        let columns = place(&context, &[size(n)], &scales(n));
        let bias: Vec<i32> = (0..50).map(|at| at * 3 - 70).collect();
        let bias = place(&context, &[size(n)], &bias);
        let out = context.empty(&[size(m), size(n)], T::DTYPE).unwrap().to(&one()).unwrap();
        let all = [&a, &b, &rows, &columns, &bias, &out];
        let kernel = kernel("dequantise", move |tl, args| {
            finish(tl, args, tl.gemm(&whole(args, 0), &whole(args, 1)));
        });
        run(&Launcher::with_mode(&context, mode), &kernel, tensors(&all)).unwrap();
        results.push(out.read::<T>().unwrap().known().unwrap());
    }
    assert_eq!(T::slice_to_bytes(&results[0]), T::slice_to_bytes(&results[1]));
    results.swap_remove(0)
}

/// Computes the integer product with loops.
fn sums() -> Vec<i32> {
    let [m, k, n] = SHAPE;
    let (a, b) = (quantised(m * k, 1), quantised(k * n, 2));
    let sum = |at: usize| {
        (0..k).map(|i| i32::from(a[at / n * k + i]) * i32::from(b[i * n + at % n])).sum()
    };
    (0..m * n).map(sum).collect()
}

fn each(value: impl Fn(usize, usize, i32) -> f32) -> Vec<f32> {
    sums().into_iter().enumerate().map(|(at, sum)| value(at / 50, at % 50, sum)).collect()
}

/// Numbers and tiles of an epilogue were converted to the type of the sum, i32: a product of 60 times 0.5 was 0.
#[test]
fn a_float_scale_makes_a_float_of_an_integer_product() {
    let found = dequantised::<f32>(|_, args, gemm| {
        gemm.after_tile(Epilogue::Scale(Binary::Mul, 0.5.into())).store(&whole(args, 5));
    });
    assert_eq!(found, each(|_, _, sum| sum as f32 * 0.5));
    assert!(found.iter().any(|value| value.fract() != 0.0), "halves are among them");
    // A float stays a float whatever its value, and so does the result.
    let found = dequantised::<f32>(|_, args, gemm| {
        gemm.after_tile(Epilogue::Scale(Binary::Mul, 1.0.into()))
            .after_tile(Epilogue::Scale(Binary::Div, 4.into()))
            .store(&whole(args, 5));
    });
    assert_eq!(found, each(|_, _, sum| sum as f32 / 4.0));
}

#[test]
fn an_integer_product_is_dequantised_by_rows_and_columns() {
    let found = dequantised::<f32>(|tl, args, gemm| {
        let [rows, columns, bias] = [2, 3, 4].map(|position| tl.load(&whole(args, position)));
        gemm.after_tile(Epilogue::With(Binary::Add, bias))
            .after_tile(Epilogue::With(Binary::Mul, rows))
            .after_tile(Epilogue::With(Binary::Mul, columns))
            .after_tile(Epilogue::Unary(Unary::Relu))
            .store(&whole(args, 5));
    });
    let (rows, columns) = (scales(40), scales(50));
    let bias = |column: usize| i32::try_from(column).unwrap() * 3 - 70;
    let value = |row: usize, column: usize, sum: i32| {
        ((sum + bias(column)) as f32 * rows[row] * columns[column]).max(0.0)
    };
    assert_eq!(found, each(value));
}

#[test]
fn an_integer_product_without_floats_stays_one() {
    let found = dequantised::<i32>(|tl, args, gemm| {
        let bias = tl.load(&whole(args, 4));
        gemm.after_step(Epilogue::Scale(Binary::Maximum, (-3000).into()))
            .after_tile(Epilogue::With(Binary::Add, bias))
            .after_tile(Epilogue::Scale(Binary::Mul, 16_777_217.into()))
            .store(&whole(args, 5));
    });
    let value = |(at, sum): (usize, i32)| {
        let bias = i32::try_from(at % 50).unwrap() * 3 - 70;
        (sum + bias).wrapping_mul(16_777_217)
    };
    assert_eq!(found, sums().into_iter().enumerate().map(value).collect::<Vec<_>>());
}

#[test]
fn an_epilogue_at_the_end_computes_in_floats_and_rounds_to_the_output() {
    let found = dequantised::<i32>(|tl, args, gemm| {
        let tile = gemm.at_the_end(Epilogue::Scale(Binary::Mul, 0.5.into())).tile(DType::I32);
        tl.store(&whole(args, 5), &tile);
    });
    let halves: Vec<_> = sums().iter().map(|sum| sum / 2).collect();
    assert_eq!(found, halves);
    let found = dequantised::<f32>(|tl, args, gemm| {
        let tile = gemm.at_the_end(Epilogue::Scale(Binary::Mul, 0.5.into())).tile(DType::F32);
        tl.store(&whole(args, 5), &tile);
    });
    assert_eq!(found, each(|_, _, sum| sum as f32 * 0.5));
}

fn refusal(make: impl Fn(&Tl, &Args) + Copy + 'static) -> String {
    let context = context("", true);
    let (x, wide) =
        (place(&context, &[32, 32], &[1_i8; 1024]), place(&context, &[32], &[1_i64; 32]));
    let run = run(&Launcher::new(&context), &kernel("refused", make), tensors(&[&x, &wide]));
    run.unwrap_err().to_string()
}

#[test]
fn an_epilogue_that_the_sum_cannot_hold_is_refused() {
    let error = refusal(|tl, args| {
        let x = whole(args, 0);
        drop(tl.gemm(&x, &x).after_step(Epilogue::Scale(Binary::Mul, 0.5.into())).tile(DType::F32));
    });
    let wanted = "mul after each step makes f32 of a sum of i32, to which the next step adds: use after_tile";
    assert!(error.contains(wanted), "{error}");
    let error = refusal(|tl, args| {
        let (x, wide) = (whole(args, 0), tl.load(&whole(args, 1)));
        drop(tl.gemm(&x, &x).after_tile(Epilogue::With(Binary::Add, wide)).tile(DType::I32));
    });
    assert!(error.contains("add of i64[32] to i32: expected a type that i32 can hold"), "{error}");
}
