//! Is one accelerator system.

pub mod message;
pub mod model;
pub mod perfetto;
pub mod topology;
