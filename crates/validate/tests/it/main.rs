//! Checks against closed forms and published figures.

#![allow(
    clippy::needless_raw_string_hashes,
    reason = "expect-test writes hashes around every snapshot"
)]

mod closed_forms;
mod lrab_published;
mod machines;
mod sources;
