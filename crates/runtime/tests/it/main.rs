//! Tests of the runtime as host programs see it.

mod decisions;
mod deploy;
mod failures;
mod flex;
mod host;
mod launch;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod owners;
mod programs;
mod tensors;
mod thread;
