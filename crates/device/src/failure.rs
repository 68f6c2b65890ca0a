//! Failures of requests on the machine.

use cubeyard_sim::NodeId;

/// Error of a request that was found while it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Node that found it.
    pub(crate) origin: NodeId,
    /// Description of the error.
    pub(crate) what: String,
}
