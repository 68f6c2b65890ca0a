//! Tests of operators: closed forms, relations between operators, and refusals.

#![allow(
    clippy::cloned_ref_to_slice_refs,
    reason = "lists of operands read alike, whatever their length"
)]

mod closed;
mod lab;
mod refusals;
mod relations;
mod samples;
