//! Programs that use the public interface: the examples of the pages, and the template of a bench.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod deploy;
mod embed;
mod five_steps;
mod own_bench;
mod own_device;
mod pages;
