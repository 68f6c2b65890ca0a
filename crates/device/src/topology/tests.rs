//! The graph and its routes against closed forms and ways written by hand.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod default_file;
mod errors;
mod graph;
mod overrides;
mod random;
mod routes;

use super::Topology;
