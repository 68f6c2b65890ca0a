//! What can go wrong with a model.

use cubeyard_runtime::RuntimeError;
use thiserror::Error;

use crate::distributed::DistError;

/// A step could not be measured.
#[derive(Debug, Error)]
pub enum ModelError {
    /// There is no such model. Name another.
    #[error("there is no model `{name}`; there are {known}; the nearest is `{nearest}`")]
    NoSuchModel {
        /// The name given.
        name: String,
        /// Those that there are.
        known: String,
        /// The most similar.
        nearest: String,
    },
    /// The model does not divide over the machine. Use another machine, or another model.
    #[error("{what}={value}: expected a multiple of {of}, {why}")]
    Uneven {
        /// What does not divide.
        what: &'static str,
        /// How much there is of it.
        value: u64,
        /// What it is divided by.
        of: u64,
        /// Who would have a part.
        why: &'static str,
    },
    /// There must be at least one of it.
    #[error("{0}=0: expected at least 1")]
    Nothing(&'static str),
    /// It does not fit: `what` was to be allocated. Use a larger machine, a smaller batch or a shorter context.
    #[error("{what} of {model} do not fit: {source}")]
    DoesNotFit {
        /// The model.
        model: String,
        /// What was to be allocated.
        what: &'static str,
        /// The allocator's report.
        source: Box<RuntimeError>,
    },
    /// Something went wrong on the way.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Something went wrong in a collective.
    #[error(transparent)]
    Group(#[from] DistError),
}

impl ModelError {
    /// Whether simulated memory or time has run out, rather than that it was asked for what cannot be.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::DoesNotFit { .. } => true,
            Self::Runtime(error) | Self::Group(DistError::Runtime(error)) => error.is_exhausted(),
            _ => false,
        }
    }
}
