//! Epilogues of composites with rows, columns and products, and row reductions as second results.

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::kernel::Args;
use cubeyard_tl::launch::Launcher;
use cubeyard_tl::numeric::{Binary, Reduce};
use cubeyard_tl::{Composite, Epilogue, Tile, Tl};

use crate::lab::{close, compute, context, kernel, place, product, run, tensors};

const SHAPE: [usize; 3] = [70, 100, 50];

/// Whole numbers from -3 to 3, so that sums are exact.
fn whole(count: usize, seed: u64) -> Vec<f32> {
    let value = |index: u64| {
        let bits = (index + seed * 1000 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        (bits % 7) as f32 - 3.0
    };
    (0..count as u64).map(value).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

/// Returns the inputs: A, B, a row, a column and a matrix of the output's shape.
fn inputs() -> [(&'static [u64], Vec<f32>); 5] {
    [
        (&[70, 100], whole(7000, 1)),
        (&[100, 50], whole(5000, 2)),
        (&[50], whole(50, 3)),
        (&[70, 1], whole(70, 4)),
        (&[70, 50], whole(3500, 5)),
    ]
}

/// Computes `(A B + row) * column + matrix * column` with loops.
fn expected() -> Vec<f64> {
    let [a, b, row, column, matrix] = inputs().map(|(_, values)| wide(&values));
    let product = product(&a, &b, SHAPE);
    let at = |index: usize| (index / 50, index % 50);
    let value = |(index, sum): (usize, &f64)| {
        let (r, c) = at(index);
        (sum + row[c]) * column[r] + matrix[index] * column[r]
    };
    product.iter().enumerate().map(value).collect()
}

/// Builds the same computation as a composite, with A in memory or pinned.
fn composite(tl: &Tl, args: &Args, is_pinned: bool) -> Composite {
    let of = |position: usize| args.tensor(position).local();
    let [row, column, matrix] = [2, 3, 4].map(|position| tl.load(&of(position)));
    let b = tl.load(&of(1));
    let gemm = if is_pinned { tl.gemm(&tl.load(&of(0)), &b) } else { tl.gemm(&of(0), &b) };
    gemm.after_tile(Epilogue::With(Binary::Add, row))
        .after_tile(Epilogue::With(Binary::Mul, column.clone()))
        .after_tile(Epilogue::AddProduct(matrix, column))
}

#[test]
fn epilogues_take_rows_columns_and_products() {
    for is_pinned in [true, false] {
        let found = compute("", &inputs(), (&[70, 50], DType::F32), move |tl, args| {
            composite(tl, args, is_pinned).store(&args.tensor(5).local());
        });
        assert_eq!(found, expected());
    }
}

#[test]
fn rows_of_the_result_are_reduced_on_the_way() {
    let all = expected();
    let reduced = |reduce: Reduce, row: &[f64]| match reduce {
        Reduce::Sum => row.iter().sum(),
        Reduce::Max => row.iter().copied().fold(f64::MIN, f64::max),
        _ => row.iter().copied().fold(f64::MAX, f64::min),
    };
    for (number, reduce) in [Reduce::Sum, Reduce::Max, Reduce::Min].into_iter().enumerate() {
        for stores in [false, true] {
            let found = compute("", &inputs(), (&[70, 1], DType::F32), move |tl, args| {
                let composite = composite(tl, args, stores);
                let composite = composite.rows(Reduce::Sum).rows(Reduce::Max).rows(Reduce::Min);
                let rows = if stores {
                    // The result overwrites an operand of the sum, which was loaded earlier.
                    composite.store_and_rows(&args.tensor(4).local()).1
                } else {
                    composite.tile_and_rows(DType::F16).1
                };
                tl.store(&args.tensor(5).local(), &rows[number]);
            });
            let wanted: Vec<_> = all.chunks(50).map(|row| reduced(reduce, row)).collect();
            assert_eq!(found, wanted, "{reduce:?} {stores}");
        }
    }
}

/// Returns the end of consecutive computations in the three stages of the engine, in ps.
fn stream(computations: &[[u64; 3]]) -> u64 {
    let mut free = [0; 3];
    for each in computations {
        let mut at = 0;
        for (free, takes) in free.iter_mut().zip(each) {
            at = at.max(*free) + takes;
            *free = at;
        }
    }
    free[2]
}

fn time(make: fn(&Tl, Composite, &[Tile; 3])) -> u64 {
    let context = context("", false);
    let kernel = kernel("timed", move |tl, _| {
        let [a, b] = [0, 1].map(|_| tl.zeros(&[64, 64], DType::F16));
        let tiles = [[1, 64], [64, 1], [64, 64]].map(|shape| tl.zeros(&shape, DType::F32));
        tl.fence();
        make(tl, tl.gemm(&a, &b), &tiles);
    });
    run(&Launcher::new(&context), &kernel, Vec::new()).unwrap().max().ps()
}

/// Four output tiles of one step: 8 KiB fetched at 512 GB/s, 131,072 FLOP at 8 TFLOP/s, 4 KiB kept.
#[test]
fn epilogues_and_reductions_cost_what_the_page_says() {
    const STEP: [u64; 3] = [16_000, 16_384, 0];
    let each_tile = |per_tile: &dyn Fn(u64) -> Vec<[u64; 3]>| -> u64 {
        stream(&(0..4).flat_map(|out| [vec![STEP], per_tile(out)].concat()).collect::<Vec<_>>())
    };
    let plain = stream(&[[16_000, 16_384, 8000]; 4]);
    let base = time(|_, gemm, _| drop(gemm.tile(DType::F32)));
    let longer = |time: u64| time - base;
    let column = time(|_, gemm, tiles| {
        drop(gemm.after_tile(Epilogue::With(Binary::Mul, tiles[1].clone())).tile(DType::F32));
    });
    // 32 numbers of 4 bytes; 1,024 elements at 256 G/s.
    assert_eq!(longer(column), each_tile(&|_| vec![[250, 4000, 8000]]) - plain);
    let scaled = time(|_, gemm, [_, column, matrix]| {
        let epilogue = Epilogue::AddProduct(matrix.clone(), column.clone());
        drop(gemm.after_tile(epilogue).tile(DType::F32));
    });
    assert_eq!(longer(scaled), each_tile(&|_| vec![[8250, 4000, 8000]]) - plain);
    let rows = time(|_, gemm, _| drop(gemm.rows(Reduce::Max).tile_and_rows(DType::F32)));
    // 1,024 elements at 128 G/s; the last tile of a row of tiles also stores 32 numbers.
    let reduction = |out: u64| vec![[0, 8000, 8000 + 250 * (out % 2)]];
    assert_eq!(longer(rows), each_tile(&reduction) - plain);
}

/// Attention of 40 queries to two blocks of 64 keys, block by block.
#[test]
fn an_online_softmax_of_composites_is_the_softmax() {
    let (queries, keys, values) = (whole(40 * 32, 6), whole(32 * 128, 7), whole(128 * 32, 8));
    let inputs = [(&[40, 32][..], queries), (&[32, 128][..], keys), (&[128, 32][..], values)];
    let scores = product(&wide(&inputs[0].1), &wide(&inputs[1].1), [40, 32, 128]);
    let weights: Vec<f64> = scores
        .chunks(128)
        .flat_map(|row| {
            let exps: Vec<_> = row.iter().map(|score| (score * 0.1).exp()).collect();
            let sum: f64 = exps.iter().sum();
            exps.into_iter().map(move |exp| exp / sum)
        })
        .collect();
    let wanted = product(&weights, &wide(&inputs[2].1), [40, 128, 32]);
    let found = compute("", &inputs, (&[40, 32], DType::F32), |tl, args| {
        let [queries, keys, values] = [0, 1, 2].map(|position| args.tensor(position).local());
        let queries = tl.load(&queries);
        let [mut greatest, mut sum] =
            [-1e30, 0.0].map(|value| tl.full(&[40, 1], value, DType::F32));
        let mut result = tl.zeros(&[40, 32], DType::F32);
        for block in [0, 64] {
            let keys = tl.load(&keys.block(&[0, block], &[32, 64]));
            let values = tl.load(&values.block(&[block, 0], &[64, 32]));
            let scores =
                tl.gemm(&queries, &keys).after_tile(Epilogue::Scale(Binary::Mul, 0.1.into()));
            let (scores, rows) = scores.rows(Reduce::Max).tile_and_rows(DType::F32);
            let now = greatest.lazy().maximum(&rows[0]);
            let (weights, decay) = ((scores.lazy() - &now).exp(), (greatest.lazy() - &now).exp());
            let sums = sum.lazy().fma(&decay, &weights.sum_keep(1));
            let [now, sums, decay, weights] = tl.eval_all([&now, &sums, &decay, &weights]);
            (greatest, sum) = (now, sums);
            let add = Epilogue::AddProduct(result, decay);
            result = tl.gemm(&weights, &values).after_tile(add).tile(DType::F32);
        }
        tl.store(&args.tensor(3).local(), &(&result / &sum));
    });
    close(&found, &wanted, 1e-5);
}

type Body = fn(&Tl, &Tile);

fn refusal(body: Body) -> String {
    let context = context("", false);
    let x = place(&context, &[64, 64], &[1.0_f32; 64 * 64]);
    let kernel = kernel("refused", move |tl, args| body(tl, &tl.load(&args.tensor(0).local())));
    run(&Launcher::new(&context), &kernel, tensors(&[&x])).unwrap_err().to_string()
}

#[test]
fn epilogues_that_do_not_fit_are_refused_with_their_line() {
    let cases: [(Body, &str); 5] = [
        (
            |tl, x| {
                let column = tl.zeros(&[32, 1], DType::F32);
                tl.gemm(x, x).after_tile(Epilogue::With(Binary::Add, column)).tile(DType::F32);
            },
            "an epilogue with f32[32, 1] on f32[64, 64]: expected a row or a column of it, or its shape",
        ),
        (
            |tl, x| {
                let row = tl.zeros(&[32], DType::F32);
                tl.gemm(x, x).after_tile(Epilogue::AddProduct(x.clone(), row)).tile(DType::F32);
            },
            "an epilogue with f32[32] on f32[64, 64]",
        ),
        (
            |tl, x| drop(tl.gemm(x, x).rows(Reduce::Max).tile(DType::F32)),
            "a reduction of rows is a second result: use tile_and_rows or store_and_rows",
        ),
        (
            |tl, x| drop(tl.gemm(x, x).rows(Reduce::Argmax).tile_and_rows(DType::F32)),
            "argmax of rows of a composite: expected sum, max, min, prod or xor",
        ),
        (
            |tl, x| {
                let gemm = tl.gemm(x, x).at_the_end(Epilogue::Scale(Binary::Mul, 2.0.into()));
                drop(gemm.rows(Reduce::Sum).tile_and_rows(DType::F32));
            },
            "reductions of rows come before an epilogue at the end",
        ),
    ];
    for (body, expected) in cases {
        let error = refusal(body);
        assert!(error.contains(expected) && error.contains("epilogues.rs:"), "{error}");
    }
}
