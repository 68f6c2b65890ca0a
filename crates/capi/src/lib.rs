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
mod compaction;
mod config;
mod create;
mod device;
mod environment;
mod figures;
mod fork;
mod held;
mod launch;
mod pressure;
mod region;
mod registry;
mod snapshot;
mod stream;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use cubeyard_memory::FlexAllocator;
use cubeyard_memory::flex::{AllocateError, Compaction, Launch, Pin, Program};

use call::Failure;
use held::Held;

/// The version of the header: its major number in the upper half, its minor number in the lower.
const ABI_VERSION: u32 = 1 << 16 | 1;

/// What a `cubeyard_allocator *` points to.
struct Front {
    allocator: FlexAllocator,
    /// The forks before it was made.
    forks: u64,
    /// In how many registries it is.
    registered: AtomicUsize,
    pins: Held<Pin>,
    /// Counted, so that a launch can use one while nothing is locked.
    programs: Held<Arc<Program>>,
    launches: Held<Launch>,
    plans: Held<Compaction>,
}

impl Front {
    fn new(allocator: FlexAllocator, forks: u64) -> Self {
        Self {
            allocator,
            forks,
            registered: AtomicUsize::new(0),
            pins: Held::new("pin"),
            programs: Held::new("program"),
            launches: Held::new("launch"),
            plans: Held::new("plan"),
        }
    }

    /// The allocator that a pointer points to, if this process may use it.
    ///
    /// # Safety
    /// If it is not null and is aligned, it points to an allocator that stays for as long as the
    /// reference is used.
    unsafe fn of<'a>(allocator: *const Self) -> Result<&'a Self, Failure> {
        // SAFETY: the caller's promise is the same.
        let front = unsafe { argument::read(allocator, "allocator") }?;
        fork::check(front.forks, "the allocator")?;
        Ok(front)
    }

    /// Refuses what would have to call the device or the streams while they are being called.
    fn refuse_reentrance(&self) -> Result<(), Failure> {
        if self.allocator.is_calling_out() {
            return Err(AllocateError::Reentrant.into());
        }
        Ok(())
    }

    /// Drops everything that the caller holds by a number.
    fn clear(&self) {
        self.launches.clear();
        self.plans.clear();
        self.programs.clear();
        self.pins.clear();
    }
}

#[unsafe(no_mangle)]
extern "C" fn cubeyard_abi_version() -> u32 {
    ABI_VERSION
}
