//! Reads YAML files whose keys and values know their lines, as typed values.
//!
//! ```
//! use cubeyard_device::input::{Document, InputError};
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

pub(crate) mod document;
mod error;
mod nearest;
mod numbers;
mod plain;
pub(crate) mod reader;
pub(crate) mod yaml;

pub use document::{Document, text};
pub use error::{InputError, InputProblem};
pub use nearest::{NoSuchName, nearest};
pub use plain::PlainValue;
pub use reader::{Field, Map};
