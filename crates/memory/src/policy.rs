//! Policies: where in a space a block should go.

pub mod planner;
