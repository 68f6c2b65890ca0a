//! Requests of a service, drawn at random.
//!
//! Arrivals are a renewal process whose gaps have a gamma distribution, as in the benchmark of vLLM: `burstiness` is
//! its shape, 1 for a Poisson process, less for bursts, and infinity for regular arrivals. The squared coefficient of
//! variation of the gaps is 1 / `burstiness`.

use std::fmt;

use cubeyard_units::{Span, Time};
use fastrand::Rng;

use crate::error::ServeError;

/// Maximum number of requests of a load.
const MOST_REQUESTS: u64 = 10_000_000;
/// Maximum number of tokens of a prompt or of an answer.
const MOST_TOKENS: u64 = 1 << 24;

/// Request for an answer to a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Instant at which the client sends the request.
    pub arrival: Time,
    /// Number of tokens of the prompt, at least 1.
    pub prompt: u64,
    /// Number of tokens of the answer, at least 1.
    pub output: u64,
    /// Priority: requests with smaller numbers are served first under [`Policy::Priority`](crate::Policy).
    pub priority: i32,
    /// Identities of the contents of the prompt, one for each [`Load::hash_tokens`] tokens. Equal identities at equal
    /// places mean equal tokens up to there. Without identities a prompt shares nothing with others.
    pub contents: Vec<u64>,
}

/// Requests of a service, in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Requests, by the time of their arrival.
    pub requests: Vec<Request>,
    /// Number of tokens of each of the contents of a prompt.
    pub hash_tokens: u64,
}

/// Distribution of the lengths of prompts or answers, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// All have this length.
    Fixed(u64),
    /// Lengths from the first to the second, all equally likely.
    Uniform(u64, u64),
    /// Log-normal lengths with this mean and this coefficient of variation, rounded to whole tokens.
    LogNormal {
        /// Mean of the lengths.
        mean: f64,
        /// Standard deviation divided by the mean.
        variation: f64,
    },
}

impl Lengths {
    /// Parses `512`, `128-1024`, or `lognormal:512:0.8` (mean and coefficient of variation).
    ///
    /// ```
    /// use cubeyard_serve::Lengths;
    ///
    /// assert_eq!(Lengths::parse("128-1024"), Some(Lengths::Uniform(128, 1024)));
    /// assert_eq!(Lengths::parse("0"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let length = |text: &str| text.parse().ok().filter(|it| (1..=MOST_TOKENS).contains(it));
        let positive =
            |text: &str| text.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
        if let Some((mean, variation)) =
            text.strip_prefix("lognormal:").and_then(|rest| rest.split_once(':'))
        {
            let mean = positive(mean).filter(|mean| *mean <= MOST_TOKENS as f64)?;
            return Some(Self::LogNormal { mean, variation: positive(variation)? });
        }
        if let Some((low, high)) = text.split_once('-') {
            let (low, high) = (length(low)?, length(high)?);
            return (low <= high).then_some(Self::Uniform(low, high));
        }
        length(text).map(Self::Fixed)
    }

    /// Draws a length of at least 1.
    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(length) => length,
            Self::Uniform(low, high) => rng.u64(low..=high),
            Self::LogNormal { mean, variation } => {
                let variance = (1.0 + variation * variation).ln();
                let length = (mean.ln() - variance / 2.0 + variance.sqrt() * normal(rng)).exp();
                whole(length.round(), MOST_TOKENS).max(1)
            }
        }
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Uniform(low, high) => write!(f, "{low} to {high}"),
            Self::LogNormal { mean, variation } => {
                write!(f, "log-normal (mean {mean}, variation {variation})")
            }
        }
    }
}

impl Load {
    /// Draws requests whose mean rate is `rate` a second. Gaps are scaled so that the last request arrives at exactly
    /// `count / rate`, as in the benchmark of vLLM. `burstiness` may be infinite.
    pub fn drawn(
        count: u64,
        rate: f64,
        burstiness: f64,
        prompt: Lengths,
        output: Lengths,
        seed: u64,
    ) -> Result<Self, ServeError> {
        let is_positive = |value: f64| value > 0.0 && !value.is_nan();
        if !is_positive(rate) || rate.is_infinite() {
            return Err(ServeError::value("rate", rate, "a positive number of requests a second"));
        }
        if !is_positive(burstiness) {
            return Err(ServeError::value("burstiness", burstiness, "a positive number"));
        }
        let mut rng = Rng::with_seed(seed);
        let gaps: Vec<f64> = (0..checked(count)?)
            .map(|_| if burstiness.is_finite() { gamma(&mut rng, burstiness) } else { 1.0 })
            .collect();
        let mut after = 0.0;
        let ends: Vec<f64> = gaps
            .into_iter()
            .map(|gap| {
                after += gap;
                after
            })
            .collect();
        let all = ends.last().copied().unwrap_or_default().max(f64::MIN_POSITIVE);
        let last = count as f64 / rate;
        let arrivals =
            ends.iter().map(|end| Time::from_ps(whole(end / all * last * 1e12, Time::FAR)));
        Self::at(arrivals.collect(), prompt, output, rng)
    }

    /// Creates requests with equal gaps, the first at the start.
    pub fn regular(
        count: u64,
        gap: Span,
        prompt: Lengths,
        output: Lengths,
        seed: u64,
    ) -> Result<Self, ServeError> {
        let arrivals = (0..checked(count)?).map(|index| Time::ZERO + gap * index).collect();
        Self::at(arrivals, prompt, output, Rng::with_seed(seed))
    }

    fn at(
        arrivals: Vec<Time>,
        prompt: Lengths,
        output: Lengths,
        mut rng: Rng,
    ) -> Result<Self, ServeError> {
        if arrivals.last().is_some_and(|last| *last > Time::HORIZON) {
            return Err(ServeError::OutOfTime);
        }
        let requests = arrivals.into_iter().map(|arrival| {
            let (prompt, output) = (prompt.draw(&mut rng), output.draw(&mut rng));
            Request { arrival, prompt, output, ..Request::default() }
        });
        Ok(Self { requests: requests.collect(), hash_tokens: 1 })
    }

    /// Returns the load with all arrivals divided by a factor, so that the rate is multiplied by it.
    #[must_use]
    pub fn faster(&self, factor: f64) -> Self {
        let mut load = self.clone();
        for request in &mut load.requests {
            request.arrival = Time::from_ps(whole(request.arrival.ps() as f64 / factor, Time::FAR));
        }
        load
    }

    /// Returns the load with its first `count` requests only.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.requests.truncate(count);
        self
    }

    /// Returns the mean number of requests a second, from the start to the last arrival; `None` if all arrive at once.
    pub fn rate(&self) -> Option<f64> {
        let last = self.requests.last().map_or(0, |last| last.arrival.ps());
        (last > 0).then(|| self.requests.len() as f64 / (last as f64 / 1e12))
    }
}

fn checked(count: u64) -> Result<u64, ServeError> {
    let is_possible = (1..=MOST_REQUESTS).contains(&count);
    let expected = || format!("a number of requests from 1 to {MOST_REQUESTS}");
    is_possible.then_some(count).ok_or_else(|| ServeError::value("requests", count, expected()))
}

/// Converts a number to a whole one of at most `most`; negative numbers and NaN become 0.
fn whole(value: f64, most: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let value = value as u64;
    value.min(most)
}

/// Draws from the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Draws from the gamma distribution with mean 1 and the given shape (Marsaglia and Tsang 2000).
fn gamma(rng: &mut Rng, shape: f64) -> f64 {
    // A shape below 1 is reached from one above 1 by a power of a uniform number.
    let (above, boost) =
        if shape < 1.0 { (shape + 1.0, (1.0 - rng.f64()).powf(1.0 / shape)) } else { (shape, 1.0) };
    let d = above - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v * boost / shape;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns mean and squared coefficient of variation.
    fn moments(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / count;
        (mean, variance / (mean * mean))
    }

    #[test]
    fn gaps_have_the_stated_rate_and_variation() {
        for burstiness in [0.25, 1.0, 4.0, f64::INFINITY] {
            let fixed = Lengths::Fixed(1);
            let load = Load::drawn(40_000, 8.0, burstiness, fixed, fixed, 7).unwrap();
            let at: Vec<_> = load.requests.iter().map(|it| it.arrival.ps() as f64 / 1e12).collect();
            let gaps: Vec<_> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (mean, variation) = moments(&gaps);
            assert!((mean - 0.125).abs() < 0.001, "{burstiness}: {mean}");
            let error = (variation - 1.0 / burstiness).abs();
            assert!(error < 0.06 * (1.0 / burstiness) + 1e-6, "{burstiness}: {variation}");
            assert_eq!(load.requests.last().unwrap().arrival.ps(), 5_000_000_000_000_000);
        }
    }

    #[test]
    fn lengths_have_the_stated_mean_and_variation() {
        let mut rng = Rng::with_seed(3);
        let lengths = Lengths::LogNormal { mean: 800.0, variation: 0.5 };
        let drawn: Vec<_> = (0..50_000).map(|_| lengths.draw(&mut rng) as f64).collect();
        let (mean, variation) = moments(&drawn);
        assert!(
            (mean - 800.0).abs() < 8.0 && (variation - 0.25).abs() < 0.02,
            "{mean} {variation}"
        );
        let uniform = Lengths::Uniform(3, 5);
        let all: std::collections::BTreeSet<_> = (0..99).map(|_| uniform.draw(&mut rng)).collect();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn impossible_values_are_errors_with_the_value() {
        let fixed = Lengths::Fixed(1);
        let error = |count, rate, burstiness| {
            Load::drawn(count, rate, burstiness, fixed, fixed, 0).unwrap_err().to_string()
        };
        assert_eq!(
            error(0, 1.0, 1.0),
            "requests=0: expected a number of requests from 1 to 10000000"
        );
        assert_eq!(error(1, 0.0, 1.0), "rate=0: expected a positive number of requests a second");
        assert_eq!(error(1, 1.0, -1.0), "burstiness=-1: expected a positive number");
        assert!(error(1, 1e-9, 1.0).contains("26 days"));
        for text in ["0", "5-4", "lognormal:0:1", "lognormal:5", "x", ""] {
            assert_eq!(Lengths::parse(text), None, "{text}");
        }
    }
}
