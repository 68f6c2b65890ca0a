//! Errors of services.

use cubeyard_model::ModelError;
use thiserror::Error;

/// Error of a service that could not be simulated.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An option has an impossible value. Change it to what is expected.
    #[error("{key}={value}: expected {expected}")]
    Value {
        /// Name of the option.
        key: &'static str,
        /// Value that was given.
        value: String,
        /// Description of the possible values.
        expected: String,
    },
    /// A line of a trace cannot be read. Correct the line.
    #[error("{file}:{line}: {key}: expected {expected}, found {found}")]
    Line {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Field of the line.
        key: String,
        /// Description of the possible values.
        expected: String,
        /// Value that was found.
        found: String,
    },
    /// The beginning of a trace has no known format. Use one of the formats named.
    #[error(
        "{file}: expected the CSV of Azure (TIMESTAMP,ContextTokens,GeneratedTokens), of BurstGPT (Timestamp,…,Request \
         tokens,Response tokens,…) or of `--requests-csv`, or JSON lines of Mooncake (timestamp, input_length, \
         output_length, hash_ids), found {found}"
    )]
    Format {
        /// Name of the file.
        file: String,
        /// First line of the file, shortened.
        found: String,
    },
    /// A trace has no requests. Use another one.
    #[error("{file}: expected at least one request, found none")]
    NoRequests {
        /// Name of the file.
        file: String,
    },
    /// The weights leave no memory for a block of the KV cache. Use a larger machine or a smaller model.
    #[error(
        "{left} bytes of a PE are left beside the weights of {model}: expected at least {block}, a block of the KV cache"
    )]
    NoRoom {
        /// Name of the model.
        model: String,
        /// Bytes of a PE that are left.
        left: u64,
        /// Bytes of a block on a PE.
        block: u64,
    },
    /// The service would run longer than simulated time lasts. Use fewer requests or a higher rate.
    #[error("the service runs longer than 26 days of simulated time")]
    OutOfTime,
    /// Error of a step of the model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl ServeError {
    /// Creates the error of an impossible value.
    pub(crate) fn value(
        key: &'static str,
        value: impl std::fmt::Display + Copy,
        expected: impl Into<String>,
    ) -> Self {
        Self::Value { key, value: value.to_string(), expected: expected.into() }
    }

    /// Returns whether simulated memory or time has run out, as opposed to an invalid request.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::NoRoom { .. } | Self::OutOfTime => true,
            Self::Model(error) => error.is_exhausted(),
            _ => false,
        }
    }
}
