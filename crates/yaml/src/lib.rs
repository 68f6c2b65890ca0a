//! YAML files as typed values. Keys and values carry their lines, so that errors can name them.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! ```
//! use cubeyard_yaml::{Document, InputError};
//!
//! fn seats(name: &str, text: &str) -> Result<u32, InputError> {
//!     let document = Document::overlaid("defaults", "seats: 4\n", name, text)?;
//!     let mut map = document.root().map()?;
//!     let seats = map.field("seats").whole(1, 9)?;
//!     map.finish()?;
//!     Ok(seats)
//! }
//! assert_eq!(seats("mine.yaml", ""), Ok(4));
//! let error = seats("mine.yaml", "seats: many\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "mine.yaml:1: seats: expected a whole number from 1 to 9, found many"
//! );
//! ```

mod document;
mod error;
mod nearest;
mod numbers;
mod plain;
mod reader;
mod tree;

pub use document::{Document, LONGEST, text, text_up_to};
pub use error::{InputError, InputProblem};
pub use nearest::{NoSuchName, meant, nearest};
pub use plain::PlainValue;
pub use reader::{Field, Map};
