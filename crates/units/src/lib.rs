//! Quantities and their text: bytes, simulated times, bandwidths.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! Sizes, instants and rates are separate types, so that a size is never added to a time. Each is displayed in a
//! suitable unit. [`text`] formats bare numbers in the same manner.
//!
//! ```
//! use cubeyard_units::{Bandwidth, Bytes, Time, text};
//!
//! let tile = Bytes::kib(64);
//! let link = Bandwidth::from_gb_per_second(256.0).unwrap();
//! let arrival = Time::ZERO + link.span(tile.get());
//! assert_eq!(tile.to_string(), "64.00 KiB");
//! assert_eq!(arrival.to_string(), "256 ns");
//! assert_eq!(text::count(65_536), "65,536");
//! assert_eq!(text::percent(0.562), "56.2 %");
//! ```

mod bytes;
pub mod text;
mod time;

pub use bytes::Bytes;
pub use time::{Bandwidth, Span, Time};
