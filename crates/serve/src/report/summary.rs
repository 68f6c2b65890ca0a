//! Statistics of latencies.

/// Statistics of latencies, in milliseconds; all 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub std: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Latency {
    /// Computes the statistics of some values.
    pub fn of(mut values: Vec<f64>) -> Self {
        let Some(count) = Some(values.len() as f64).filter(|count| *count > 0.0) else {
            return Self::default();
        };
        values.sort_by(f64::total_cmp);
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let [median, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|at| percentile(&values, at));
        Self { mean, std: variance.sqrt(), median, p90, p99, max }
    }

    /// Returns the statistics with their names.
    pub fn statistics(self) -> [(&'static str, f64); 6] {
        let Self { mean, std, median, p90, p99, max } = self;
        [("mean", mean), ("std", std), ("median", median), ("p90", p90), ("p99", p99), ("max", max)]
    }
}

/// Returns a percentile of sorted values, interpolated linearly as `numpy.percentile` does; `at` is from 0 to 1.
///
/// ```
/// use cubeyard_serve::report::percentile;
///
/// assert_eq!(percentile(&[1.0, 2.0, 4.0], 0.75), 3.0);
/// ```
pub fn percentile(sorted: &[f64], at: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = at.clamp(0.0, 1.0) * last as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to last")]
    let below = place.floor() as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    low + (high - low) * (place - below as f64)
}
