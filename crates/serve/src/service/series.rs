//! State of a service over time, within bounded memory.

use cubeyard_units::Time;

/// Maximum number of samples.
const MOST: usize = 4096;

/// State of a service during one step or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Start of the first step, or of the host's work before it.
    pub start: Time,
    /// End of the last step.
    pub end: Time,
    /// Maximum number of waiting requests.
    pub waiting: u64,
    /// Maximum number of sequences of a batch.
    pub running: u64,
    /// Maximum number of tokens of a batch.
    pub tokens: u64,
    /// Maximum number of used blocks.
    pub blocks: u64,
}

impl Sample {
    /// Joins two consecutive samples.
    fn joined(self, next: Self) -> Self {
        Self {
            start: self.start,
            end: next.end,
            waiting: self.waiting.max(next.waiting),
            running: self.running.max(next.running),
            tokens: self.tokens.max(next.tokens),
            blocks: self.blocks.max(next.blocks),
        }
    }
}

/// Samples of a service in order. Neighbours are joined when there are more than 4,096, so that peaks remain.
#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: Vec<Sample>,
    /// Number of steps of a sample, as a power of two.
    level: u32,
    /// Number of steps in the last sample.
    last: u64,
}

impl Series {
    /// Returns the samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Adds a step.
    pub(super) fn push(&mut self, sample: Sample) {
        let is_full = self.last == 0 || self.last >> self.level > 0;
        match self.samples.last_mut() {
            Some(last) if !is_full => *last = last.joined(sample),
            _ => {
                self.samples.push(sample);
                self.last = 0;
            }
        }
        self.last += 1;
        if self.samples.len() > MOST {
            self.halve();
        }
    }

    /// Joins each pair of neighbours.
    fn halve(&mut self) {
        let pairs = self.samples.chunks(2);
        let joined =
            |pair: &[Sample]| pair[1..].iter().fold(pair[0], |all, next| all.joined(*next));
        self.samples = pairs.map(joined).collect();
        self.level += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_keep_their_peaks_and_ends() {
        let mut series = Series::default();
        let at = |index: u64| Time::from_ps(index * 10);
        for index in 0..50_000 {
            let waiting = if index == 31_234 { 99 } else { index % 7 };
            let (start, end) = (at(index), at(index + 1));
            series.push(Sample { start, end, waiting, running: 1, tokens: 1, blocks: 1 });
        }
        let samples = series.samples();
        assert!(samples.len() <= MOST && samples.len() > MOST / 2, "{}", samples.len());
        assert_eq!((samples[0].start, samples.last().unwrap().end), (at(0), at(50_000)));
        assert!(samples.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(samples.iter().filter(|sample| sample.waiting == 99).count(), 1);
    }
}
