//! Refusals of operators.

use cubeyard_runtime::RuntimeError;
use thiserror::Error;

/// Reason why an operator has no simulated time.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// An operand, a result or an option is not what the family takes. The text names it, its value and what was expected.
    #[error("{0}")]
    Input(String),
    /// The machine refused a launch.
    #[error("the kernel of the operator: {0}")]
    Machine(#[from] RuntimeError),
}

/// Returns an error of an operand, a result or an option.
pub(crate) fn refused<T>(what: impl Into<String>) -> Result<T, OperatorError> {
    Err(OperatorError::Input(what.into()))
}
