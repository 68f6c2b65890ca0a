//! Kernels on a machine: their numbers and their times.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod benches;
mod bounds;
mod ccl;
mod choices;
mod closed_forms;
mod collective_checks;
mod collective_times;
mod collectives;
mod distributed;
mod flex;
mod gemm;
mod lab;
mod language;
mod lrab_published;
mod many_pes;
mod message_order;
mod messages;
mod model;
mod needs;
mod numbers;
mod pages;
mod parts;
mod paths;
mod process_groups;
mod races;
mod rates;
mod receive_any;
mod recordings;
mod stalls;
mod strays;
