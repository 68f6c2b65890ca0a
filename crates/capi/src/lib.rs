//! The Flex allocator for C.
//!
//! Internal: programs in C use `libcubeyard`, programs in Rust the crate `cubeyard`.
//!
//! The contract is `include/cubeyard.h`, function by function. The public items here are for Rust front ends that pass
//! their allocators to C, or add functions to the header's. Each function converts its arguments (`argument`),
//! calls [`cubeyard_memory`], and converts the result (`call`, `status`). The crate depends only on the memory crate,
//! and on `tracing-subscriber` for the log that the environment can enable.

#![allow(
    unsafe_code,
    reason = "C hands in pointers; each use says what the header asks of the caller"
)]

mod argument;
mod block;
mod call;
mod compaction;
mod config;
mod create;
mod device;
mod environment;
mod export;
mod figures;
mod fork;
mod held;
mod launch;
mod pool;
mod pressure;
mod region;
mod registry;
mod rest;
mod snapshot;
mod status;
mod stream;
mod tag;
mod watch;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use cubeyard_memory::FlexAllocator;
use cubeyard_memory::flex::{
    AllocateError, Compaction, Export, Launch, Pin, PressureCallback, Program,
};

pub use call::{Detach, call, detach_calls};
pub use create::microseconds;
pub use environment::read as read_environment;
pub use fork::{check as check_forks, watch as watch_forks};
use held::Held;
use pool::Pools;
use pressure::PressureKey;
pub use status::{Failure, Status};
use watch::Watched;

/// Text of the header `cubeyard.h`.
pub const HEADER: &str = include_str!("../include/cubeyard.h");

/// Version of the header: the major number in the upper half, the minor number in the lower half.
const ABI_VERSION: u32 = 1 << 16 | 3;

/// Target of a `cubeyard_allocator *`.
pub struct Front {
    allocator: FlexAllocator,
    /// Fork count when the allocator was created.
    forks: u64,
    /// Number of registries that contain the allocator.
    registered: AtomicUsize,
    pins: Held<Pin>,
    /// Loaded programs; reference-counted, so that a launch can use one while no lock is held.
    programs: Held<Arc<Program>>,
    launches: Held<Launch>,
    plans: Held<Compaction>,
    exports: Held<Export>,
    subscriptions: Held<Watched>,
    pools: Pools,
    pressure: Mutex<Vec<(PressureKey, PressureCallback)>>,
}

impl Front {
    /// Returns a pointer to an allocator for functions of the header. It is valid until the allocator is destroyed
    /// through the header.
    pub fn hand_out(allocator: FlexAllocator) -> Result<*mut Self, Failure> {
        let forks = fork::watch()?;
        Ok(Box::into_raw(Box::new(Self::new(allocator, forks))))
    }

    fn new(allocator: FlexAllocator, forks: u64) -> Self {
        Self {
            allocator,
            forks,
            registered: AtomicUsize::new(0),
            pins: Held::new("pin"),
            programs: Held::new("program"),
            launches: Held::new("launch"),
            plans: Held::new("plan"),
            exports: Held::new("export"),
            subscriptions: Held::new("subscription"),
            pools: Pools::default(),
            pressure: Mutex::default(),
        }
    }

    /// Returns the allocator that a pointer refers to, if this process may use it.
    ///
    /// # Safety
    /// If the pointer is neither null nor unaligned, it points to an allocator that stays valid as long as the
    /// reference is used.
    unsafe fn of<'a>(allocator: *const Self) -> Result<&'a Self, Failure> {
        // SAFETY: the caller guarantees the same.
        let front = unsafe { argument::read(allocator, "allocator") }?;
        fork::check(front.forks, "the allocator")?;
        Ok(front)
    }

    /// Fills a list of the caller, with room for `capacity` elements, and its count.
    ///
    /// # Safety
    /// The same as for [`of`](Self::of) and [`argument::write_list`].
    unsafe fn fill<T>(
        allocator: *const Self,
        list: (*mut T, usize),
        count: *mut usize,
        name: &str,
        found: impl FnOnce(&Self) -> Result<Vec<T>, Failure>,
    ) -> Status {
        call::call(|| {
            // SAFETY: the caller guarantees the same.
            let values = found(unsafe { Self::of(allocator) }?)?;
            // SAFETY: the caller guarantees the same.
            unsafe { argument::write_list(list, count, &values, name) }
        })
    }

    /// Refuses an operation that would call the device or the streams while they are being called.
    fn refuse_reentrance(&self) -> Result<(), Failure> {
        if self.allocator.is_calling_out() {
            return Err(AllocateError::Reentrant.into());
        }
        Ok(())
    }

    /// Drops everything that the caller refers to by number.
    fn clear(&self) {
        self.launches.clear();
        self.plans.clear();
        self.programs.clear();
        self.pins.clear();
        self.exports.clear();
        self.pools.clear();
    }
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_abi_version() -> u32 {
    ABI_VERSION
}
