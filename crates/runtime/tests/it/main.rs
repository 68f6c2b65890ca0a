//! Tests of the runtime as host programs see it.

mod decisions;
mod deploy;
mod examples;
mod failures;
mod flex;
mod host;
mod launch;
mod owners;
mod programs;
mod tensors;
mod thread;
