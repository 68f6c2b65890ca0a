//! Is one accelerator system.
