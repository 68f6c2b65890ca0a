//! Errors of models.

mod plan;

use cubeyard_runtime::RuntimeError;
use cubeyard_runtime::dtype::DType;
use thiserror::Error;

pub use plan::PlanError;

use cubeyard_collectives::distributed::DistError;

/// Error of a step that could not be measured.
#[derive(Debug, Error)]
pub enum ModelError {
    /// No model has this name. Name another.
    #[error("there is no model `{name}`: expected one of {known}; the nearest is `{nearest}`")]
    NoSuchModel {
        /// Name that was given.
        name: String,
        /// List of all known names.
        known: String,
        /// Most similar known name.
        nearest: String,
    },
    /// The model does not divide evenly over the machine. Use another machine, or another model.
    #[error("{what}={value}: expected a multiple of {of}, {why}")]
    Uneven {
        /// Name of the quantity that does not divide.
        what: &'static str,
        /// Value of the quantity.
        value: u64,
        /// Required divisor of the value.
        of: u64,
        /// Reason for the required divisor.
        why: &'static str,
    },
    /// The machine cannot compute activations of this type. Choose one of `expected`.
    #[error("dtype={dtype}: expected a float type of GEMM: {expected}")]
    Activations {
        /// Type of the activations.
        dtype: DType,
        /// Names of the supported types.
        expected: String,
    },
    /// Weights of this type cannot be multiplied by activations of type `dtype`. Change one of the two types.
    #[error(
        "weights={weights}: expected {dtype}, the type of activations{}",
        if matches!(dtype, DType::F16 | DType::Bf16) { ", or fp8_e4m3, fp8_e5m2 or i8" } else { "" }
    )]
    Weights {
        /// Type of the weights.
        weights: DType,
        /// Type of the activations.
        dtype: DType,
    },
    /// Caches of this type cannot be used with activations of type `dtype`. Change one of the two types.
    #[error(
        "kv_dtype={kv}: expected {dtype}, the type of activations{}",
        if matches!(dtype, DType::F16 | DType::Bf16) { ", or fp8_e4m3 or fp8_e5m2" } else { "" }
    )]
    Caches {
        /// Type of the caches.
        kv: DType,
        /// Type of the activations.
        dtype: DType,
    },
    /// A quantity is 0, but must be at least 1.
    #[error("{0}=0: expected at least 1")]
    Nothing(&'static str),
    /// The model does not fit in memory. Use a larger machine, a smaller batch or a shorter context.
    #[error("{what} of {model} do not fit: {source}")]
    DoesNotFit {
        /// Name of the model.
        model: String,
        /// Tensors whose allocation failed.
        what: &'static str,
        /// Report of the allocator.
        source: Box<RuntimeError>,
    },
    /// The plan cannot be used. Change the plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Error of the runtime or the machine.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Error of a collective.
    #[error(transparent)]
    Group(#[from] DistError),
}

impl ModelError {
    /// Returns whether simulated memory or time has run out, as opposed to an invalid request.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::DoesNotFit { .. } | Self::Plan(PlanError::NoneFits { .. }) => true,
            Self::Runtime(error) | Self::Group(DistError::Runtime(error)) => error.is_exhausted(),
            _ => false,
        }
    }
}
