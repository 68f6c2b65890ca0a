//! Benchmark of tile arithmetic: microseconds per operation.
//!
//! `cargo bench -p cubeyard-tl --bench numeric`. Each figure is the lower quartile over all rounds.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench reads the clock and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use cubeyard_runtime::dtype::DType;
use cubeyard_tl::numeric::{
    Array, Binary, NumericError, Reduce, TileType, Unary, binary, cast, dot, reduce, softmax,
    transpose, unary,
};

const ROUNDS: usize = 400;
const REPEATS: u32 = 20;

fn main() -> Result<(), NumericError> {
    let tile = |dtype, shape: &[u64]| {
        let ty = TileType::new(dtype, shape)?;
        let values: Vec<f64> = (0..ty.elements()).map(|index| (index % 17) as f64 / 8.0).collect();
        Array::from_values(&ty, &values)
    };
    let (a, b) = (tile(DType::F16, &[32, 64])?, tile(DType::F16, &[64, 32])?);
    let row = tile(DType::F16, &[64])?;
    let (single, int) = (tile(DType::F32, &[32, 64])?, tile(DType::I32, &[32, 64])?);
    let sums = dot(&a, &b, None)?;
    let bytes = a.to_bytes();
    report("from_bytes f16[32, 64]", || Array::from_bytes(a.ty(), &bytes));
    report("to_bytes f16[32, 64]", || Ok(a.to_bytes()));
    report("dot f16[32, 64] f16[64, 32]", || dot(&a, &b, None));
    report("dot, accumulated", || dot(&a, &b, Some(&sums)));
    report("add f16[32, 64] f16[32, 64]", || binary(Binary::Add, &a, &a));
    report("add f16[32, 64] f16[64]", || binary(Binary::Add, &a, &row));
    report("add f32[32, 64] f32[32, 64]", || binary(Binary::Add, &single, &single));
    report("add i32[32, 64] i32[32, 64]", || binary(Binary::Add, &int, &int));
    report("exp f16[32, 64]", || unary(Unary::Exp, &a));
    report("erf f32[32, 64]", || unary(Unary::Erf, &single));
    report("softmax f16[32, 64] along 1", || softmax(&a, 1));
    report("sum f16[32, 64] along 0", || reduce(Reduce::Sum, &a, 0, false));
    report("sum f16[32, 64] along 1", || reduce(Reduce::Sum, &a, 1, false));
    report("max f16[32, 64] along 1", || reduce(Reduce::Max, &a, 1, false));
    report("transpose f16[32, 64]", || transpose(&a));
    report("cast f32[32, 64] to f16", || cast(&single, DType::F16));
    Ok(())
}

fn report<T>(name: &str, operation: impl Fn() -> Result<T, NumericError>) {
    let mut rounds: Vec<_> = (0..ROUNDS).map(|_| round(&operation)).collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:30} {:8.2} µs", rounds[ROUNDS / 4]);
}

/// Returns the microseconds per operation.
fn round<T>(operation: impl Fn() -> Result<T, NumericError>) -> f64 {
    let start = Instant::now();
    for _ in 0..REPEATS {
        black_box(operation()).expect("the tiles fit");
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(REPEATS)
}
