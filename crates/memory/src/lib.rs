//! Carves device memory into blocks and accounts for every byte.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A device hands out a few large regions; a [`FlexAllocator`] carves blocks out of them. The device here is a
//! simulated card, which counts memory but stores none. Your own device implements [`device::DeviceMemory`].
//!
//! ```
//! use std::sync::Arc;
//! use cubeyard_memory::device::{Card, CardSpec};
//! use cubeyard_memory::{Bytes, FlexAllocator};
//!
//! let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
//! let allocator = FlexAllocator::new(card);
//! let weights = allocator.allocate(Bytes::mib(300)).unwrap();
//! let bias = allocator.allocate(Bytes::new(1000)).unwrap();
//! assert_eq!(bias.size(), Bytes::new(1024)); // blocks are multiples of 128 bytes
//! assert_eq!(weights.address().to_string(), "0x400000000+0x0");
//! ```
//!
//! An [`Allocation`] owns its block: dropping it, on any thread, frees the block. The statistics match
//! `torch.accelerator.memory_stats`, key by key.
//!
//! ```
//! # use std::sync::Arc;
//! # use cubeyard_memory::device::{Card, CardSpec};
//! # use cubeyard_memory::{Bytes, FlexAllocator};
//! # let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
//! # let allocator = FlexAllocator::new(card);
//! # let weights = allocator.allocate(Bytes::mib(300)).unwrap();
//! # let bias = allocator.allocate(Bytes::new(1000)).unwrap();
//! drop(weights);
//! let stats = allocator.stats();
//! assert_eq!(stats.key("allocated_bytes.all.current"), Some(1024));
//! assert_eq!(stats.key("allocated_bytes.all.peak"), Some(1024 + (300 << 20)));
//! assert_eq!(stats.key("reserved_bytes.all.current"), Some(12 << 30)); // one region
//! ```
//!
//! The configuration, a line of text, selects the policies. When memory runs out, callbacks may free some. If that does
//! not help, the error distinguishes full memory, fragmented memory, and requests that can never fit.
//!
//! ```
//! # use std::sync::{Arc, Mutex};
//! # use cubeyard_memory::device::{Card, CardSpec};
//! # use cubeyard_memory::flex::{AllocateError, Shortage};
//! # use cubeyard_memory::{Bytes, FlexAllocator};
//! # let card = Arc::new(Card::new(CardSpec::physical(Bytes::gib(16))));
//! let config = "block:best-fit,region:fill-first,fallback_sizes:[8GiB]".parse().unwrap();
//! let allocator = FlexAllocator::builder(card).config(config).build().unwrap();
//! let cache = Arc::new(Mutex::new(Vec::new()));
//! let evicted = Arc::downgrade(&cache);
//! allocator.on_pressure(move |_| {
//!     if let Some(cache) = evicted.upgrade() {
//!         cache.lock().unwrap().clear();
//!     }
//! });
//! for _ in 0..4 {
//!     cache.lock().unwrap().push(allocator.allocate(Bytes::gib(4)).unwrap());
//! }
//! let batch = allocator.allocate(Bytes::gib(6)).unwrap(); // the cache made room
//! let Err(AllocateError::OutOfMemory(report)) = allocator.allocate(Bytes::gib(9)) else { panic!() };
//! assert_eq!(report.shortage, Shortage::TooLarge);
//! ```
//!
//! From here:
//!
//! - [`flex`]: regions, streams, launches, compaction, snapshots for PyTorch's memory viewer;
//! - [`policy`]: the strategies, one file each;
//! - [`index`]: the free-space index below all of them, which can be used alone;
//! - [`pe`] and [`virtual_space`]: the memories of a PE and a cube, and the virtual range of a context;
//! - [`conformance`]: the suite that every allocator here passes, also for allocators of your own.
//!
//! Nothing here reads the clock, a file or the environment; the same calls give the same results.

#![cfg_attr(
    test,
    allow(
        clippy::needless_raw_string_hashes,
        reason = "expect-test writes hashes around every snapshot"
    )
)]

pub mod address;
pub mod conformance;
pub mod device;
pub mod flex;
pub mod free_list;
pub mod index;
pub mod page_table;
pub mod pe;
pub mod policy;
pub mod stats;
mod sync;
pub mod virtual_space;

pub use address::PhysAddr;
pub use cubeyard_units::Bytes;
pub use flex::{Allocation, FlexAllocator, FlexConfig, VirtualAddress};
pub use free_list::{Checking, FreeList};
pub use pe::{CubeSram, PeMemory};
pub use virtual_space::{DeviceVa, VirtualAllocator};
