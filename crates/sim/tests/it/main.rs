//! Tests of the engine as its users see it.

mod buffers;
mod crowds;
mod grid;
mod horizon;
mod links;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod naive;
mod stopping;
mod tasks;
mod traffic;
mod trains;
