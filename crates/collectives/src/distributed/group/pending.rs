//! A collective under way, and its report.

use cubeyard_runtime::{LaunchHandle, LaunchReport, RuntimeError};
use cubeyard_sim::{Span, Time};

use crate::distributed::error::DistError;

/// Measured times of a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveReport {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// Time from the start of the first PE to the end of the last.
    pub kernel: Span,
    /// Time from the host's first launch until the host has all completions.
    pub host: Span,
    /// Size in bytes: the larger of a rank's input and output, as `cubeyard ccl` counts it.
    pub bytes: u64,
    /// Launches of the collective, one for each SIP.
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

    /// Waits for all launches of the collective.
    pub fn wait(self) -> Result<CollectiveReport, DistError> {
        Ok(self.report(LaunchHandle::wait)?)
    }

    /// Waits for all launches, for at most `limit` of simulated time each; `None` if a launch takes longer.
    pub(in crate::distributed) fn wait_within(
        self,
        limit: Span,
    ) -> Result<Option<CollectiveReport>, DistError> {
        match self.report(|handle| handle.wait_within(limit)) {
            Err(RuntimeError::Deadline { .. }) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    fn report(
        &self,
        wait: impl Fn(&LaunchHandle) -> Result<LaunchReport, RuntimeError>,
    ) -> Result<CollectiveReport, RuntimeError> {
        let launches = self.handles.iter().map(wait).collect::<Result<Vec<_>, _>>()?;
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
