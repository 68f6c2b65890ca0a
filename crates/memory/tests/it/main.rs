//! Tests of `cubeyard-memory` from outside.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them when it updates")]

mod pytorch_models;
