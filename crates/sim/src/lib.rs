//! Advances time, deterministically; knows no hardware.

mod time;

pub use time::{Bandwidth, Span, Time};
