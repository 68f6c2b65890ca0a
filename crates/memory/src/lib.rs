//! Carves device memory into blocks and accounts for every byte.

mod bytes;
pub mod conformance;
pub mod index;
pub mod replay;
pub mod trace;

pub use bytes::Bytes;
