//! Is one accelerator system.

pub mod perfetto;
