//! Tests of the machine as its users see it.

mod bench;
mod explain;
mod formula;
mod launch;
mod published;
mod refused;
mod validate;
