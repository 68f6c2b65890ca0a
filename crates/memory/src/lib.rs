//! Carves device memory into blocks and accounts for every byte.

mod bytes;
pub mod conformance;
mod excerpt;
pub mod index;
pub mod pickle;
pub mod replay;
pub mod trace;

pub use bytes::Bytes;
