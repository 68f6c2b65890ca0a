//! Carves device memory into blocks and accounts for every byte.

mod bytes;
pub mod policy;
pub mod replay;
pub mod trace;

pub use bytes::Bytes;
