//! Is what a host program talks to.

pub mod dtype;
pub mod placement;
pub mod shape;
