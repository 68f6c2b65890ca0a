//! Errors of benches.

use cubeyard_collectives::distributed::DistError;
use cubeyard_runtime::RuntimeError;
use cubeyard_tl::TooLarge;
use thiserror::Error;

use super::ParameterError;

/// Error of a bench that could not run to completion.
#[derive(Debug, Error)]
pub enum BenchError {
    /// No bench has this name.
    #[error("there is no bench `{name}`{}", nearest.as_ref().map_or_else(String::new, |nearest| format!("; the nearest is `{nearest}`")))]
    NoSuchBench {
        /// The name given.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
    },
    /// A parameter is invalid.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The parameters do not fit together or do not fit the machine; the text gives the reason.
    #[error("{0}")]
    Unfit(String),
    /// The bench reads loaded values, so it needs data mode.
    #[error("{0} branches on loaded values: it needs --data")]
    NeedsData(String),
    /// The bench ended without a launch, so there is nothing to report.
    #[error("{0} has launched no kernel, so there is nothing to report")]
    NothingLaunched(String),
    /// Error of a bench that a front provides, such as a Python exception.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The run needs more host memory than allowed.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Error of the runtime or the machine.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Error of a process group.
    #[error(transparent)]
    Distributed(#[from] DistError),
}

impl BenchError {
    /// Returns whether memory or time has run out, as opposed to an invalid request.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::TooLarge(_) => true,
            Self::Own(error) => error.exhausted,
            Self::Runtime(error) | Self::Distributed(DistError::Runtime(error)) => {
                error.is_exhausted()
            }
            _ => false,
        }
    }
}

/// Error of a bench that a front provides.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct OwnError {
    /// Description with file and line.
    pub text: String,
    /// Original error of the front.
    pub source: Box<dyn std::error::Error + Send + Sync>,
    /// Whether simulated memory or time has run out.
    pub exhausted: bool,
    /// Action that may help the user.
    pub help: Option<String>,
}
