//! Requests of a service at a rate.

use crate::error::ServeError;
use crate::load::{Lengths, Load};

/// Requests of a service.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSource {
    /// Requests drawn at random.
    Drawn {
        /// Number of requests.
        count: u64,
        /// Arrivals of the requests.
        arrivals: Arrivals,
        /// Tokens of the prompts.
        prompt: Lengths,
        /// Tokens of the answers.
        output: Lengths,
        /// Seed of the random numbers.
        seed: u64,
    },
    /// Requests of a trace.
    Recorded {
        /// Name of the trace.
        name: String,
        /// Requests.
        load: Load,
    },
}

/// Arrivals of drawn requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Mean number of requests a second.
    pub rate: f64,
    /// Shape of the gamma distribution of the gaps.
    pub burstiness: f64,
}

impl LoadSource {
    /// Returns the requests at a rate, or at their own.
    pub fn at(&self, rate: Option<f64>) -> Result<Load, ServeError> {
        match self {
            Self::Drawn { count, arrivals, prompt, output, seed } => {
                let Arrivals { rate: own, burstiness } = *arrivals;
                Load::drawn(*count, rate.unwrap_or(own), burstiness, *prompt, *output, *seed)
            }
            Self::Recorded { load, .. } => match (rate, load.rate()) {
                (None, _) => Ok(load.clone()),
                (Some(rate), _) if !(rate.is_finite() && rate > 0.0) => {
                    Err(ServeError::value("rate", rate, "a positive number of requests a second"))
                }
                (Some(rate), Some(own)) => Ok(load.faster(rate / own)),
                (Some(rate), None) => Err(ServeError::value(
                    "rate",
                    rate,
                    "no rate, since all requests of the trace arrive at once",
                )),
            },
        }
    }

    /// Returns the mean number of requests a second; `None` if all arrive at once.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Self::Drawn { arrivals, .. } => Some(arrivals.rate),
            Self::Recorded { load, .. } => load.rate(),
        }
    }

    /// Returns a description: the name of the trace, or the distributions.
    pub fn describe(&self) -> String {
        match self {
            Self::Recorded { name, load } => format!("{} requests of {name}", load.requests.len()),
            Self::Drawn { count, arrivals, prompt, output, .. } => {
                let arrivals = match arrivals.burstiness {
                    1.0 => "Poisson arrivals".to_owned(),
                    shape if shape.is_infinite() => "regular arrivals".to_owned(),
                    shape => format!("gamma arrivals of burstiness {shape}"),
                };
                format!(
                    "{count} requests, {arrivals}, prompts of {prompt}, answers of {output} tokens"
                )
            }
        }
    }
}
