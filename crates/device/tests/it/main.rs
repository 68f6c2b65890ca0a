//! Tests of the machine as its users see it.

mod bench;
mod explain;
mod fidelity;
mod formula;
mod launch;
mod published;
mod refused;
mod rows;
mod validate;
