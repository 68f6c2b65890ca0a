//! A collective under way, and what it took.

use cubeyard_runtime::{LaunchHandle, LaunchReport};
use cubeyard_sim::{Span, Time};

use crate::distributed::error::DistError;

/// What a collective took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveReport {
    /// The algorithm.
    pub algorithm: &'static str,
    /// From when the first PE began until the last was done.
    pub kernel: Span,
    /// From the host's launches until it had all completions.
    pub host: Span,
    /// Bytes of each rank's input.
    pub bytes: u64,
    /// The launches, one for each SIP.
    pub launches: Vec<LaunchReport>,
}

/// A collective under way.
#[derive(Debug)]
#[must_use = "a collective is done when it has been waited for"]
pub struct Pending {
    algorithm: &'static str,
    begun: Time,
    bytes: u64,
    handles: Vec<LaunchHandle>,
}

impl Pending {
    pub(in crate::distributed) fn new(
        algorithm: &'static str,
        begun: Time,
        bytes: u64,
        handles: Vec<LaunchHandle>,
    ) -> Self {
        Self { algorithm, begun, bytes, handles }
    }

    /// Waits for all its launches.
    pub fn wait(self) -> Result<CollectiveReport, DistError> {
        let launches: Result<Vec<_>, _> = self.handles.iter().map(LaunchHandle::wait).collect();
        let launches = launches?;
        let cores = || launches.iter().flat_map(|launch| &launch.cores);
        let started = cores().map(|(_, core)| core.started).min().unwrap_or(self.begun);
        let ended = cores().map(|(_, core)| core.ended).max().unwrap_or(self.begun);
        let done = launches.iter().map(|launch| launch.done).max().unwrap_or(self.begun);
        Ok(CollectiveReport {
            algorithm: self.algorithm,
            kernel: ended - started,
            host: done - self.begun,
            bytes: self.bytes,
            launches,
        })
    }
}
