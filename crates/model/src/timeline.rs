//! Timeline of a step as seen by the first SIP.

use cubeyard_sim::{Span, Time};

use super::cut::{Cut, Ends};
use super::driver::PartRun;
use super::part::StepPart;

/// Step with some of its identical layers. SIPs wait for each other in every all-reduce, so the time of one
/// SIP is the time of all.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Parts with their start and end.
    ran: Vec<(StepPart, Time, Time)>,
    layers: u64,
    ends: Ends,
}

impl Timeline {
    /// Creates the timeline of an embedding, `layers` layers, a norm and a head. Without a head, the norm only marks
    /// the start of what follows the layers.
    pub(super) fn new(ran: &[PartRun], layers: u64, ends: Ends) -> Self {
        let of_first = |ran: &PartRun| {
            let launch = &ran.launches[0];
            (ran.part, launch.started, launch.started + launch.max())
        };
        Self { ran: ran.iter().map(of_first).collect(), layers, ends }
    }

    /// Returns the index of the first part of the layers.
    fn first_of_layers(&self) -> usize {
        usize::from(self.ends.has_embedding)
    }

    /// Returns the index of the last norm, which is followed only by the head.
    fn last_norm(&self) -> usize {
        self.ran.len() - 1 - usize::from(self.ends.has_head)
    }

    /// Returns the time from the start to the beginning of the layers.
    pub(super) fn before(&self) -> Span {
        self.ran[self.first_of_layers()].1 - self.ran[0].1
    }

    /// Returns the time from the start of a layer to the start of the next part.
    pub(super) fn layer(&self) -> Span {
        let all = self.ran[self.last_norm()].1 - self.ran[self.first_of_layers()].1;
        Span::from_ps(all.ps() / self.layers)
    }

    /// Returns the time after the layers; zero without a head.
    pub(super) fn behind(&self) -> Span {
        if !self.ends.has_head {
            return Span::ZERO;
        }
        self.ran[self.ran.len() - 1].2 - self.ran[self.last_norm()].1
    }

    /// Returns the total time of a kind of part per layer.
    pub(super) fn in_layer(&self, part: StepPart) -> Span {
        let of_layers = &self.ran[self.first_of_layers()..self.last_norm()];
        Span::from_ps(sum(of_layers, part).ps() / self.layers)
    }

    /// Returns the total time of a kind of part outside the layers.
    pub(super) fn outside(&self, part: StepPart) -> Span {
        let behind = if self.ends.has_head { &self.ran[self.last_norm()..] } else { &[] };
        sum(&self.ran[..self.first_of_layers()], part) + sum(behind, part)
    }
}

fn sum(ran: &[(StepPart, Time, Time)], part: StepPart) -> Span {
    ran.iter().filter(|(kind, ..)| *kind == part).map(|&(_, began, ended)| ended - began).sum()
}

/// Returns the number of runs of a kind of part per layer.
pub(super) fn per_layer(part: StepPart, cut: &Cut) -> u64 {
    StepPart::layer(cut).into_iter().filter(|kind| *kind == part).count() as u64
}

/// Returns at most `most` of `all` positions, evenly spread, including the first and the last.
pub(super) fn positions(all: u64, most: u64) -> Vec<u64> {
    let count = all.min(most.max(2));
    (0..count).map(|index| index * (all - 1) / (count - 1).max(1)).collect()
}

/// Sums over all positions, interpolating linearly between known ones.
pub(super) fn sum_between(known: &[(u64, Span)]) -> Span {
    let first = known.first().map_or(0, |(_, span)| i128::from(span.ps()));
    let between = known.windows(2).map(|pair| {
        let [(from, low), (to, high)] =
            [pair[0], pair[1]].map(|(at, span)| (i128::from(at), i128::from(span.ps())));
        let steps = to - from;
        // Sum of low + (high - low) i / steps for i from 1 to steps.
        steps * low + (high - low) * (steps + 1) / 2
    });
    Span::from_ps(u64::try_from(first + between.sum::<i128>()).expect("times are positive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_evenly_is_summed_exactly_from_its_ends() {
        let at = |position: u64| Span::from_ps(1000 + 30 * position);
        for all in 1..40 {
            let sum: Span = (0..all).map(at).sum();
            for most in [2, 3, 9] {
                let known: Vec<_> =
                    positions(all, most).into_iter().map(|place| (place, at(place))).collect();
                assert_eq!(sum_between(&known), sum, "{all} positions, {most} of them known");
            }
        }
        assert_eq!(positions(128, 9), [0, 15, 31, 47, 63, 79, 95, 111, 127]);
    }
}
