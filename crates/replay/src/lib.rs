//! Replay of recorded allocations under several allocation policies.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! [`trace`] reads recordings of PyTorch, RMM and scripts. A [`Target`] is an allocator under replay; [`run`] replays a
//! trace on it and counts bytes. [`POLICIES`] lists the policies to compare. A [`Report`] holds the results of one
//! trace under several policies, [`advice()`] recommends one, and [`chart`] draws them.
//!
//! ```
//! use cubeyard_memory::Bytes;
//! use cubeyard_replay::{self as replay, trace};
//!
//! let script = b"alloc weights 30 MiB\nalloc batch 3 MiB\nfree batch\n";
//! let trace = &trace::read("tiny", script, Bytes::mib(1))?[0];
//! let mut report = replay::Report::new(trace);
//! for name in ["pytorch", "first-fit"] {
//!     // The library reads no clock: this one stands still, so each operation takes 0 ns.
//!     report.rows.push(replay::policy(name)?.replay(trace, &mut || 0, &mut |_| {}));
//! }
//! assert_eq!(report.rows[0].outcome.peak_live, Bytes::mib(33));
//! assert_eq!(report.rows[0].outcome.peak_reserved, Bytes::mib(50));
//! assert_eq!(report.rows[1].outcome.peak_reserved, Bytes::mib(34));
//! assert!(replay::advice(&[report]).starts_with("`first-fit` needs 34.00 MiB"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advice;
mod apart;
mod cache;
pub mod chart;
mod doubt;
mod flex;
mod held;
mod holders;
mod least;
mod map;
mod measure;
mod planned;
pub mod planner;
mod policy;
pub mod pytorch;
mod record;
mod refused;
mod report;
mod run;
mod settings;
mod stream_remark;
#[cfg(test)]
#[path = "../examples/recycling/synthetic/mod.rs"]
mod synthetic;
mod timeline;
pub mod trace;
mod usage;
mod work;

pub use self::advice::{Answer, advice, answer};
pub use self::cache::CacheUse;
pub use self::doubt::Doubt;
pub use self::flex::Flex;
pub use self::held::{Held, HeldGroup, Moment};
pub use self::holders::{Grouping, Holder, holders};
pub use self::least::Least;
pub use self::map::{BlockMap, MappedBlock};
pub use self::policy::{Kind, Make, POLICIES, ReplayPolicy, UnknownPolicy, policy};
pub use self::record::{HolderOptions, PolicyRecord};
pub use self::report::{COLUMNS, LEAST_COLUMNS, Report, Row};
pub use self::run::{Failure, Outcome, memory_needed, run};
pub use self::settings::Setting;
pub use self::timeline::{Point, Timeline};
pub use self::usage::{HOLDER_COLUMNS, MemoryUse, UseLine};

use crate::trace::Allocate;
use cubeyard_units::Bytes;

/// Allocator under replay.
///
/// The replay calls [`allocate`](Target::allocate) once for each allocation of nonzero size in the trace, and
/// [`free`](Target::free) at most once for each allocation that succeeded. A token identifies a block to its target.
pub trait Target {
    /// Serves a request and returns its token, or the reason for the failure.
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String>;

    /// Frees the block with this token.
    fn free(&mut self, token: u64);

    /// Returns the number of bytes of device memory that the target currently holds.
    fn reserved(&self) -> Bytes;

    /// Returns the address of the block with this token; `None` if the target has no addresses.
    fn address(&self, _token: u64) -> Option<u64> {
        None
    }

    /// Returns the number of times that the target released its cache because memory had run out.
    fn retries(&self) -> u64 {
        0
    }

    /// Returns the number of times that the target waited for work of a stream that was not complete.
    fn waits(&self) -> u64 {
        0
    }
}
