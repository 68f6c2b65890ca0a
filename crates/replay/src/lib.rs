//! Replay: feed a recorded trace to an allocator and see what it would have needed.
//!
//! An allocator that can be replayed is a [`Target`]; [`run`] feeds it a trace and counts. The
//! policies that people can choose between are the lines of [`POLICIES`]; a [`Report`] holds what
//! came of one trace under several of them, [`advice`] says in a sentence what to make of reports,
//! and [`chart`] draws them.
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
pub mod chart;
mod doubt;
mod flex;
mod measure;
mod planned;
pub mod planner;
mod policy;
pub mod pytorch;
mod refused;
mod report;
mod run;
#[cfg(test)]
#[path = "../examples/recycling/synthetic/mod.rs"]
mod synthetic;
mod timeline;
pub mod trace;

pub use self::advice::advice;
pub use self::doubt::Doubt;
pub use self::policy::{Kind, POLICIES, ReplayPolicy, UnknownPolicy, policy};
pub use self::report::{COLUMNS, Report, Row};
pub use self::run::{Failure, Outcome, memory_needed, run};
pub use self::timeline::{Point, Timeline};

use crate::trace::Allocate;
use cubeyard_units::Bytes;

/// An allocator that a trace can be fed to.
///
/// The replay calls [`allocate`](Target::allocate) once for each allocation of the trace that has
/// any bytes, and [`free`](Target::free) at most once for each that succeeded. A token is whatever
/// the target finds its block with.
pub trait Target {
    /// Serves a request, or says why it cannot.
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String>;

    /// Takes back what `allocate` answered with this token.
    fn free(&mut self, token: u64);

    /// What it holds of the device's memory at this moment.
    fn reserved(&self) -> Bytes;
}

/// The examples of the pages about this crate, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/replay.md")]
struct Pages;
