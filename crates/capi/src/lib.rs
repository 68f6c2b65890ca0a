//! The Flex allocator for C.
//!
//! The contract is `include/cubeyard.h`, function by function; nothing here is meant for Rust. Each
//! function converts its arguments, calls [`cubeyard_memory`], and converts the answer. What can be
//! wrong with an argument is looked at in `argument`, what comes out of a call goes through `call`.
//! The crate depends on the memory crate alone, and on `tracing-subscriber` for the log that the
//! environment can ask for.

#![allow(
    unsafe_code,
    reason = "C hands in pointers; each use says what the header asks of the caller"
)]

mod argument;
mod block;
mod call;
mod config;
mod create;
mod device;
mod environment;
mod figures;
mod pressure;
mod snapshot;
mod stream;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cubeyard_memory::FlexAllocator;
use cubeyard_memory::flex::Pin;

/// The version of the header: its major number in the upper half, its minor number in the lower.
const ABI_VERSION: u32 = 1 << 16 | 1;

/// What a `cubeyard_allocator *` points to.
struct Front {
    allocator: FlexAllocator,
    pins: Mutex<Pins>,
}

/// The pins that are on, by the number that the caller knows them by.
#[derive(Default)]
struct Pins {
    on: BTreeMap<u64, Pin>,
    last: u64,
}

impl Front {
    /// The pins. A pin must not be dropped while they are locked: that may call the streams.
    fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_abi_version() -> u32 {
    ABI_VERSION
}
