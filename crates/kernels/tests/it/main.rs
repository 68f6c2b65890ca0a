//! Kernels on a machine: their numbers and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod benches;
mod ccl;
mod collective_times;
mod collectives;
mod distributed;
mod gemm;
mod lab;
mod language;
mod many_pes;
mod messages;
mod model;
mod numbers;
mod pages;
mod paths;
mod races;
mod rates;
