//! Tests of the engine as its users see it.

mod buffers;
mod grid;
mod links;
mod naive;
mod plans;
mod queue;
mod runs;
mod stopping;
mod tasks;
mod traffic;
