//! Tests of the machine as its users see it.

mod bench;
mod explain;
mod formula;
mod launch;
mod own_component;
mod published;
mod refused;
