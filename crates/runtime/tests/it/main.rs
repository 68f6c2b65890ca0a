//! Tests of the runtime as seen by host programs.

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
