//! Traces, policies and advice through the public interface.

#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::needless_raw_string_hashes,
    reason = "random numbers are cut to size on purpose; tests say how much they have seen; expect-test \
              writes hashes around every snapshot"
)]

mod advice;
mod cases;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod pytorch_models;
mod readers;
mod relations;
mod stream_order;
mod streams;
