//! Files that people write: YAML whose every key and value knows its line, and typed values out of it.

mod error;
pub mod nearest;
pub(crate) mod reader;
pub(crate) mod yaml;

pub use error::{InputError, InputProblem};
