//! Carves device memory into blocks and accounts for every byte.

pub mod address;
mod bytes;
pub mod conformance;
pub mod index;
pub mod replay;
pub mod trace;

pub use address::PhysAddr;
pub use bytes::Bytes;
