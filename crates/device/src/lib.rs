//! Is one accelerator system.

pub mod topology;
