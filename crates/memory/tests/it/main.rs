//! Integration tests, which need more than one module of the library.

#![allow(
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::needless_raw_string_hashes,
    reason = "random numbers are cut to size on purpose; tests say how much they have seen; expect-test \
              writes hashes around every snapshot"
)]

mod conformance;
mod flex;
mod index;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod pe_memory;
mod rfc;
