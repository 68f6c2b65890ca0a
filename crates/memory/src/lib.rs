//! Carves device memory into blocks and accounts for every byte.

mod bytes;
mod excerpt;
pub mod pickle;
pub mod replay;
pub mod trace;

pub use bytes::Bytes;
