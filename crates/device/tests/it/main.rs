//! Tests of the machine as its users see it.

mod bench;
mod determinism;
mod explain;
mod formula;
mod launch;
mod pattern;
mod published;
mod refused;
