//! Collectives on a machine: their results and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod ccl;
mod collective_checks;
mod collective_times;
mod collectives;
mod distributed;
#[path = "../../../tl/tests/it/lab.rs"]
#[allow(dead_code, reason = "shared with the tests of the language")]
mod lab;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod process_groups;
mod recordings;
mod service;
mod service_bits;
mod service_calls;
mod service_order;
