//! Machines of the same kind, joined by a network.

use std::str::FromStr;

use cubeyard_memory::address::SipId;
use cubeyard_sim::Span;

use super::PlanError;

/// Network between machines: a message of n bytes takes α + n / β.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Latency of a message.
    pub alpha: Span,
    /// Bandwidth, in bytes per second.
    pub beta: f64,
}

/// A latency of 2 µs, and a bandwidth of 50 GB/s.
impl Default for Network {
    fn default() -> Self {
        Self { alpha: Span::from_ps(2_000_000), beta: 50e9 }
    }
}

impl Network {
    /// Returns the time of a message.
    ///
    /// ```
    /// use cubeyard_model::plan::Network;
    ///
    /// let network: Network = "alpha=2us,beta=50GB/s".parse()?;
    /// assert_eq!(network, Network::default());
    /// assert_eq!(network.time(100_000).ns(), 2_000.0 + 2_000.0);
    /// # Ok::<(), cubeyard_model::plan::PlanError>(())
    /// ```
    pub fn time(&self, bytes: u64) -> Span {
        self.alpha + Span::from_ns(bytes as f64 / self.beta * 1e9).unwrap_or(Span::MAX)
    }
}

/// Suffixes of times, in nanoseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6)];
/// Suffixes of bandwidths, in bytes per second.
const RATES: [(&str, f64); 3] = [("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6)];

impl FromStr for Network {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut network = Self::default();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim(), value.trim());
            let error = |expected| {
                let (key, value) = (key.to_owned(), value.to_owned());
                PlanError::Network { key, value, expected }
            };
            match key {
                "alpha" => {
                    let alpha = scaled(value, &TIMES).and_then(Span::from_ns);
                    network.alpha = alpha.ok_or_else(|| error("a time such as 2us"))?;
                }
                "beta" => {
                    let beta = scaled(value, &RATES).filter(|beta| *beta > 0.0);
                    network.beta = beta.ok_or_else(|| error("a bandwidth such as 50GB/s"))?;
                }
                _ => return Err(error("the keys alpha and beta, such as alpha=2us,beta=50GB/s")),
            }
        }
        Ok(network)
    }
}

/// Parses a finite number, at least 0, with one of these suffixes.
fn scaled(text: &str, suffixes: &[(&str, f64)]) -> Option<f64> {
    let strip = |(suffix, scale): &(&str, f64)| Some((text.strip_suffix(suffix)?, *scale));
    let (number, scale) = suffixes.iter().find_map(strip)?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

/// Machines of the same kind, joined by a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// Number of machines.
    pub nodes: u64,
    /// Network between them.
    pub network: Network,
}

/// A single machine, without a network.
impl Default for World {
    fn default() -> Self {
        Self { nodes: 1, network: Network::default() }
    }
}

/// SIPs of a stage: their machine, and their numbers on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) node: u64,
    pub(super) sips: Vec<SipId>,
}

impl Place {
    /// Returns the place of `count` SIPs from a first one, counted over all machines of `sips` SIPs.
    pub(super) fn new(first: u64, count: u64, sips: &[SipId]) -> Self {
        let all = sips.len().max(1) as u64;
        let (node, first) = (first / all, usize::try_from(first % all).unwrap_or(0));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self { node, sips: sips.iter().skip(first).take(count).copied().collect() }
    }
}
