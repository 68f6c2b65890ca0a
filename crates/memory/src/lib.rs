//! Carves device memory into blocks and accounts for every byte.

#![cfg_attr(
    test,
    allow(
        clippy::needless_raw_string_hashes,
        reason = "expect-test writes hashes around every snapshot"
    )
)]

pub mod address;
mod bytes;
pub mod conformance;
pub mod device;
mod excerpt;
pub mod flex;
pub mod free_list;
pub mod index;
pub mod pe;
pub mod pickle;
pub mod policy;
pub mod replay;
pub mod stats;
mod sync;
pub mod trace;
pub mod virtual_space;

pub use address::PhysAddr;
pub use bytes::Bytes;
pub use flex::{Allocation, FlexAllocator, FlexConfig, VirtualAddress};
pub use free_list::{Checking, FreeList};
pub use pe::{CubeSram, PeMemory};
pub use virtual_space::{DeviceVa, VirtualAllocator};
