//! Kernels on a machine: their results and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod along;
mod channels;
mod dot;
mod epilogues;
mod flex;
mod fuse;
mod fuse_model;
mod gemm;
mod integer_products;
mod lab;
mod language;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod message_order;
mod messages;
mod numbers;
mod order;
mod overlaps;
mod races;
mod receive_any;
mod scalars;
mod script;
mod shared;
mod slots;
mod stalls;
mod strays;
mod views;
