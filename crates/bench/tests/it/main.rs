//! Benches: their figures, bounds and pages.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod benches;
#[path = "../../../tl/tests/it/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of the language")]
mod lab;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod many_pes;
mod needs;
mod parts;
mod paths;
mod rates;
mod records;
mod relations;
mod small;
mod transformer_layer;
