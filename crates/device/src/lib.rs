//! Is one accelerator system.

pub mod contents;
pub mod explain;
pub mod formula;
pub mod input;
pub mod log;
pub mod machine;
pub mod message;
pub mod model;
pub mod perfetto;
pub mod probe;
pub mod request;
pub mod topology;
pub mod trace;
mod wiring;

pub use wiring::Wiring;
pub mod validate;
