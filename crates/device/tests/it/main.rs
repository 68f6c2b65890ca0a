//! Tests of the machine as its users see it.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod bench;
mod determinism;
mod explain;
mod fidelity;
mod formula;
mod launch;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod mappings;
mod oplog;
mod overrides;
mod own_component;
mod pattern;
mod pe;
mod published;
mod rate;
mod refused;
mod rows;
