//! Products of matrices. Inputs are eighths, so that sums are exact in any order.

use cubeyard_kernels::{
    Activation, OperandLayout, Staging, block_sparse, gemm, gemm_blocked, gemm_multi, linear, qkv,
};
use cubeyard_runtime::dtype::DType;
use cubeyard_tl::launch::Mode;
use cubeyard_tl::pack;

use crate::lab::{
    ALL, Case, Input, Over, close, given, in_panels, numbers, output, product, size, zeroed,
};

/// M, K and N; some are less than a tile of the matrix unit, some more.
const SHAPES: [[u64; 3]; 4] = [[1, 1, 1], [5, 3, 9], [32, 64, 32], [33, 70, 41]];
/// Tile of the matrix unit of the default machine.
const TILE: [u64; 3] = [32, 64, 32];

/// Returns an operand on the first PE: row by row, or packed in tiles.
fn operand(values: &[f64], shape: [u64; 2], tile: Option<[u64; 2]>) -> Input {
    let Some(tile) = tile else { return given(Over::First, &shape, DType::F16, values) };
    let packed = pack(values, shape, tile);
    given(Over::First, &[packed.len() as u64], DType::F16, &packed)
}

/// Multiplies by one tiled operation, and returns the product row by row.
fn tiled(
    staging: Staging,
    layout: OperandLayout,
    operands: [&[f64]; 2],
    shape: [u64; 3],
) -> Vec<f64> {
    let ([m, k, n], [tile_m, tile_k, tile_n]) = (shape, TILE);
    let is_tiled = layout == OperandLayout::Tiled;
    let of_a = (is_tiled && staging == Staging::RefRef).then_some([tile_m, tile_k]);
    let of_b = (is_tiled && staging != Staging::LoadLoad).then_some([tile_k, tile_n]);
    // Elements of the product by place in memory, counted from 1; 0 in the padding of tiles.
    let elements: Vec<u64> = (1..=m * n).collect();
    let places = if is_tiled { pack(&elements, [m, n], [tile_m, tile_n]) } else { elements };
    let of_c = if is_tiled { vec![places.len() as u64] } else { vec![m, n] };
    let tensors = vec![
        operand(operands[0], [m, k], of_a),
        operand(operands[1], [k, n], of_b),
        zeroed(Over::First, &of_c, DType::F32),
    ];
    let found = Case::new(&gemm(staging, layout), tensors, &shape).run().remove(0);
    let mut product = vec![f64::NAN; size(m * n)];
    for (place, value) in places.into_iter().zip(found).filter(|(place, _)| *place > 0) {
        product[size(place - 1)] = value;
    }
    product
}

#[test]
fn a_product_on_one_pe_is_exact_in_every_staging_and_layout() {
    for shape @ [m, k, n] in SHAPES {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let expected = product(&a, &b, shape);
        for staging in [Staging::RefRef, Staging::LoadRef, Staging::LoadLoad] {
            for layout in [OperandLayout::RowMajor, OperandLayout::Tiled] {
                let found = tiled(staging, layout, [&a, &b], shape);
                assert_eq!(found, expected, "{shape:?} {staging:?} {layout:?}");
            }
        }
    }
}

#[test]
fn a_product_by_blocks_is_exact_for_any_block() {
    for shape @ [m, k, n] in SHAPES {
        let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
        for block in [[1, 1, 1], [4, 5, 6], [16, 32, 8], [64, 128, 64]] {
            if block == [1, 1, 1] && m * k * n > 1000 {
                continue;
            }
            let tensors = vec![
                given(Over::First, &[m, k], DType::F16, &a),
                given(Over::First, &[k, n], DType::F16, &b),
                output(Over::First, &[m, n], DType::F32),
            ];
            let found = Case::new(&gemm_blocked(), tensors, &block).run();
            assert_eq!(found, [product(&a, &b, shape)], "{shape:?} in blocks of {block:?}");
        }
    }
}

#[test]
fn a_product_on_many_pes_is_exact_by_panels_and_by_tiles() {
    for (shape @ [m, k, n], resident, width) in
        [([8, 16, 32], 2, 32), ([20, 13, 41], 3, 16), ([12, 31, 7], 100, 8)]
    {
        let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
        let expected = product(&a, &b, shape);
        let of_pe = size(m / ALL * n);
        let expected: Vec<f64> =
            expected.chunks_exact(of_pe).flat_map(|part| in_panels(part, n, width)).collect();
        for by_panel in [0, 1] {
            let tensors = vec![
                given(Over::Rows, &[m, k], DType::F16, &a),
                given(Over::Copies, &[k, n], DType::F16, &in_panels(&b, n, width)),
                output(Over::Rows, &[m, n], DType::F16),
            ];
            let found = Case::new(&gemm_multi(), tensors, &[resident, width, by_panel]).run();
            assert_eq!(found, std::slice::from_ref(&expected), "{shape:?} by panel: {by_panel}");
        }
    }
}

#[test]
fn a_linear_layer_applies_its_activation_to_the_sums() {
    for ([rows, depth, tokens], block) in [([4, 1, 1], 1), ([12, 7, 5], 2), ([40, 24, 3], 100)] {
        let (w, x) = (numbers(rows * depth, 7), numbers(depth * tokens, 8));
        let sums = product(&w, &x, [rows, depth, tokens]);
        for activation in [Activation::Identity, Activation::Silu, Activation::Gelu] {
            let tensors = vec![
                given(Over::Rows, &[rows, depth], DType::F16, &w),
                given(Over::Copies, &[depth, tokens], DType::F16, &x),
                output(Over::Rows, &[rows, tokens], DType::F32),
            ];
            let found = Case::new(&linear(activation), tensors, &[block, 0]).run().remove(0);
            let expected: Vec<f64> = sums.iter().map(|sum| activation.of(*sum)).collect();
            let tolerance = if activation == Activation::Identity { 0.0 } else { 1e-5 };
            close(&found, &expected, tolerance);
        }
    }
}

/// Each cube multiplies its rows of W by its half of x.
#[test]
fn a_linear_layer_whose_cubes_share_the_input_uses_a_part_in_each() {
    let ([rows, depth, tokens], cubes) = ([8, 6, 3], 2);
    let (w, x) = (numbers(rows * depth, 9), numbers(cubes * depth * tokens, 10));
    let tensors = vec![
        given(Over::Rows, &[rows, depth], DType::F16, &w),
        given(Over::Copies, &[cubes * depth, tokens], DType::F16, &x),
        output(Over::Rows, &[rows, tokens], DType::F32),
    ];
    let found = Case::new(&linear(Activation::Identity), tensors, &[2, depth]).run();
    let parts =
        w.chunks_exact(size(rows / cubes * depth)).zip(x.chunks_exact(size(depth * tokens)));
    let expected: Vec<f64> =
        parts.flat_map(|(w, x)| product(w, x, [rows / cubes, depth, tokens])).collect();
    assert_eq!(found, [expected]);
}

/// Four heads of Q, one for each PE, and two of K and V, which half of the PEs hold.
#[test]
fn queries_keys_and_values_are_products_by_head() {
    for ([tokens, depth, features], resident, width) in
        [([1, 4, 2], 1, 2), ([6, 30, 20], 4, 8), ([9, 17, 32], 100, 32)]
    {
        let x = numbers(tokens * depth, 11);
        let heads = [4, 2, 2];
        let of = |(seed, heads): (u64, u64)| numbers(heads * depth * features, seed);
        let weights = [(12, 4), (13, 2), (14, 2)].map(of);
        let mut tensors = vec![given(Over::Copies, &[tokens, depth], DType::F16, &x)];
        let each = size(depth * features);
        for (weights, heads) in weights.iter().zip(heads) {
            let stored: Vec<f64> = weights
                .chunks_exact(each)
                .flat_map(|head| in_panels(head, features, width))
                .collect();
            tensors.push(given(Over::Rows, &[heads, depth * features], DType::F16, &stored));
        }
        let out = |heads| output(Over::Rows, &[heads, tokens * features], DType::F16);
        tensors.extend(heads.map(out));
        let found = Case::new(&qkv(), tensors, &[resident, features, width]).run();
        for (found, weights) in found.iter().zip(&weights) {
            let heads = weights.chunks_exact(each);
            let expected: Vec<f64> =
                heads.flat_map(|head| product(&x, head, [tokens, depth, features])).collect();
            assert_eq!(*found, expected, "{tokens} tokens of {depth} features");
        }
    }
}

/// Multiplies a matrix of blocks of 4 × 4 by a dense one, and returns the product and its time.
fn sparse(flags: &[f64], [rows, columns, n]: [u64; 3]) -> (Vec<f64>, Vec<f64>, u64) {
    let edge = 4;
    let a = numbers(rows * columns * edge * edge, 15);
    let b = numbers(columns * edge * n, 16);
    let tensors = vec![
        given(Over::Rows, &[rows, columns], DType::U8, flags),
        given(Over::Rows, &[rows, columns * edge * edge], DType::F16, &a),
        given(Over::Copies, &[columns * edge, n], DType::F16, &b),
        output(Over::Rows, &[rows, edge * n], DType::F16),
    ];
    // It branches on loaded values, so it cannot be recorded.
    let (found, time) = Case::new(&block_sparse(), tensors, &[edge]).run_in(Mode::Live);
    let mut expected = vec![0.0; size(rows * edge * n)];
    let blocks = flags.iter().zip(a.chunks_exact(size(edge * edge))).enumerate();
    for (at, (_, block)) in blocks.filter(|(_, (flag, _))| **flag != 0.0) {
        let (row, column) = (at / size(columns), at % size(columns));
        let right = &b[column * size(edge * n)..(column + 1) * size(edge * n)];
        let sums = expected[row * size(edge * n)..].iter_mut();
        sums.zip(product(block, right, [edge, edge, n])).for_each(|(sum, part)| *sum += part);
    }
    (found.into_iter().next().unwrap(), expected, time.ps())
}

#[test]
fn a_sparse_product_is_the_sum_of_its_blocks_and_absent_blocks_take_no_time() {
    let shape @ [rows, columns, _] = [8, 3, 5];
    let count = size(rows * columns);
    let some: Vec<f64> = (0..count).map(|at| f64::from(u8::from(at % 5 < 2))).collect();
    let mut times = Vec::new();
    for flags in [vec![0.0; count], some, vec![1.0; count]] {
        let (found, expected, time) = sparse(&flags, shape);
        assert_eq!(found, expected, "{flags:?}");
        times.push(time);
    }
    assert!(times.is_sorted_by(|one, other| one < other), "{times:?}");
}
