//! Kernels on a machine: their numbers and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod benches;
mod ccl;
mod collectives;
mod gemm;
mod lab;
mod language;
mod many_pes;
mod messages;
mod numbers;
mod paths;
mod races;
mod rates;
