//! Carves device memory into blocks and accounts for every byte.

mod bytes;
pub mod conformance;
pub mod device;
mod excerpt;
pub mod flex;
pub mod index;
pub mod pickle;
pub mod policy;
pub mod replay;
pub mod stats;
mod sync;
pub mod trace;

pub use bytes::Bytes;
