//! The graph and its routes, compared with closed forms and with routes written by hand.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod default_file;
mod errors;
mod graph;
mod groups;
mod overrides;
mod random;
mod routes;

use super::Topology;
