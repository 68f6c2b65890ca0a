//! Kernels on a machine: their numbers and their times.

mod benches;
mod gemm;
mod language;
mod rates;
