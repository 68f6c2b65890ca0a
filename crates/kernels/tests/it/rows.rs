//! Kernels that process elements or rows: sums, copies, softmax and norms.

use cubeyard_kernels::{CopyFrom, EPSILON, copy, layer_norm, rms_norm, softmax, vector_add};
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::Kernel;

use crate::lab::{ALL, Case, Over, close, given, numbers, output, size};

#[test]
fn sums_of_vectors_are_exact_for_any_length_and_block() {
    for (length, block) in [(4, 1), (5, 8), (13, 3), (64, 16), (101, 7)] {
        let [x, y] = [1, 2].map(|seed| numbers(length, seed));
        let of = |values: &[f64]| given(Over::Rows, &[length], DType::F16, values);
        let tensors = vec![of(&x), of(&y), output(Over::Rows, &[length], DType::F16)];
        let found = Case::new(&vector_add(), tensors, &[block]).run();
        let expected: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        assert_eq!(found, [expected], "{length} elements in blocks of {block}");
    }
}

#[test]
fn copies_come_from_the_own_pe_the_next_cube_or_the_first_pe() {
    let (columns, rows): (u64, _) = (19, 0..size(ALL));
    let x = numbers(ALL * columns, 3);
    // Ranks are cube by cube, two PEs each.
    for (from, source) in [
        (CopyFrom::Own, [0, 1, 2, 3]),
        (CopyFrom::NextCube, [2, 3, 0, 1]),
        (CopyFrom::First, [0; 4]),
    ] {
        let shape = [ALL, columns];
        let row = |row: usize| &x[row * size(columns)..(row + 1) * size(columns)];
        let expected: Vec<f64> = rows.clone().flat_map(|at| row(source[at]).to_vec()).collect();
        for block in [1, 6, 19, 40] {
            let x = given(Over::Rows, &shape, DType::F32, &x);
            let tensors = vec![x, output(Over::Rows, &shape, DType::F32)];
            let found = Case::new(&copy(from), tensors, &[block]).run();
            assert_eq!(found, [expected.clone()], "{from:?} in blocks of {block}");
        }
    }
}

/// Applies a kernel of rows: x, then rows that each PE holds, then the result.
fn of_rows(kernel: &Kernel, x: &[f64], columns: u64, more: &[&[f64]], tile: u64) -> Vec<f64> {
    let shape = [x.len() as u64 / columns, columns];
    let mut tensors = vec![given(Over::Rows, &shape, DType::F32, x)];
    let copies = more.iter().map(|row| given(Over::Copies, &[1, columns], DType::F32, row));
    tensors.extend(copies);
    tensors.push(output(Over::Rows, &shape, DType::F32));
    Case::new(kernel, tensors, &[tile]).run().remove(0)
}

fn each_row(x: &[f64], columns: u64, of: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    x.chunks_exact(size(columns)).flat_map(of).collect()
}

/// Numbers of rows and columns, and rows per tile.
const SHAPES: [[u64; 3]; 4] = [[4, 1, 1], [9, 7, 2], [16, 33, 3], [6, 130, 8]];

#[test]
fn softmax_is_the_naive_one_and_ignores_a_shift() {
    let naive = |row: &[f64]| {
        let powers: Vec<f64> = row.iter().map(|x| x.exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|power| power / sum).collect()
    };
    for [rows, columns, tile] in SHAPES {
        let x: Vec<f64> = numbers(rows * columns, 4).iter().map(|x| 4.0 * x).collect();
        let found = of_rows(&softmax(), &x, columns, &[], tile);
        close(&found, &each_row(&x, columns, naive), 1e-6);
        let shifted: Vec<f64> = x.iter().map(|x| x + 96.0).collect();
        close(&of_rows(&softmax(), &shifted, columns, &[], tile), &found, 1e-6);
    }
}

#[test]
fn rms_norm_is_the_naive_one_whatever_the_tile() {
    for [rows, columns, tile] in SHAPES {
        let (x, gamma) = (numbers(rows * columns, 5), numbers(columns, 6));
        let naive = |row: &[f64]| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            let factor = 1.0 / (mean + EPSILON).sqrt();
            row.iter().zip(&gamma).map(|(x, gamma)| x * factor * gamma).collect()
        };
        let found = of_rows(&rms_norm(), &x, columns, &[&gamma], tile);
        close(&found, &each_row(&x, columns, naive), 1e-5);
        assert_eq!(of_rows(&rms_norm(), &x, columns, &[&gamma], 1), found, "rows one by one");
    }
}

#[test]
fn layer_norm_is_the_naive_one_and_ignores_a_shift() {
    for [rows, columns, tile] in SHAPES {
        let x = numbers(rows * columns, 7);
        let [gamma, beta] = [8, 9].map(|seed| numbers(columns, seed));
        let naive = |row: &[f64]| {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
            let factor = 1.0 / (variance + EPSILON).sqrt();
            let scaled =
                |(x, (gamma, beta)): (&f64, (&f64, &f64))| (x - mean) * factor * gamma + beta;
            row.iter().zip(gamma.iter().zip(&beta)).map(scaled).collect()
        };
        let found = of_rows(&layer_norm(), &x, columns, &[&gamma, &beta], tile);
        close(&found, &each_row(&x, columns, naive), 1e-5);
        let shifted: Vec<f64> = x.iter().map(|x| x + 2.0).collect();
        let found_shifted = of_rows(&layer_norm(), &shifted, columns, &[&gamma, &beta], tile);
        close(&found_shifted, &found, 1e-4);
    }
}
