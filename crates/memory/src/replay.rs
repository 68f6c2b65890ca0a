//! Replay: feed a recorded trace to an allocator and see what it would have needed.

pub mod pytorch;

use crate::Bytes;
use crate::trace::Allocate;

/// An allocator that a trace can be fed to.
///
/// The replay calls [`allocate`](Target::allocate) once for each allocation of the trace and
/// [`free`](Target::free) at most once for each that succeeded. A token is whatever the target
/// finds its block with.
pub trait Target {
    /// Serves a request, or says why it cannot.
    fn allocate(&mut self, request: &Allocate) -> Result<u64, String>;

    /// Takes back what `allocate` answered with this token.
    fn free(&mut self, token: u64);

    /// What it holds of the device's memory at this moment.
    fn reserved(&self) -> Bytes;
}
