//! Kernels on a machine: their numbers and their times.

mod gemm;
mod language;
