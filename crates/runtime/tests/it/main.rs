//! Tests of the runtime as host programs see it.

mod deploy;
mod failures;
mod flex;
mod launch;
mod tensors;
