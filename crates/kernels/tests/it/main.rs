//! Kernels on a machine: their numbers and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod benches;
mod ccl;
mod choices;
mod collective_times;
mod collectives;
mod distributed;
mod gemm;
mod lab;
mod language;
mod many_pes;
mod messages;
mod numbers;
mod pages;
mod paths;
mod process_groups;
mod races;
mod rates;
