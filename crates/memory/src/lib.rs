//! Carves device memory into blocks and accounts for every byte.

pub mod address;
mod bytes;
pub mod conformance;
pub mod free_list;
pub mod index;
pub mod pe;
pub mod replay;
pub mod trace;
pub mod virtual_space;

pub use address::PhysAddr;
pub use bytes::Bytes;
pub use free_list::{Checking, FreeList};
pub use pe::{CubeSram, PeMemory};
pub use virtual_space::{DeviceVa, VirtualAllocator};
