//! Is one accelerator system.

pub mod explain;
pub mod formula;
pub mod log;
pub mod machine;
pub mod message;
pub mod model;
pub mod perfetto;
pub mod request;
pub mod topology;
pub mod trace;
pub mod validate;
