//! Kernels on a machine: their numbers and their times.

mod benches;
mod gemm;
mod lab;
mod language;
mod numbers;
mod races;
