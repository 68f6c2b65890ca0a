//! Timeline of a step as seen by the first SIP.

use std::ops::Range;

use cubeyard_sim::{Span, Time};

use super::cut::{Cut, Ends};
use super::driver::PartRun;
use super::part::StepPart;

/// Step with some of the layers of each kind, which are identical. SIPs wait for each other in every all-reduce, so the
/// time of one SIP is the time of all.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// Parts with their start and end.
    ran: Vec<(StepPart, Time, Time)>,
    /// Parts of the layers of each kind, and their number of layers.
    kinds: Vec<(Range<usize>, u64)>,
    ends: Ends,
}

impl Timeline {
    /// Creates the timeline of an embedding, layers, a norm and a head. `layers` has the number of layers of each
    /// kind, and of the parts of one of them. Without a head, the norm only marks the start of what follows the layers.
    pub(super) fn new(ran: &[PartRun], layers: &[(u64, usize)], ends: Ends) -> Self {
        let of_first = |ran: &PartRun| {
            let launch = &ran.launches[0];
            (ran.part, launch.started, launch.started + launch.max())
        };
        let mut start = usize::from(ends.has_embedding);
        let mut of_kind = |&(layers, parts): &(u64, usize)| {
            let end = start + usize::try_from(layers).expect("they ran") * parts;
            (std::mem::replace(&mut start, end)..end, layers)
        };
        let kinds = layers.iter().map(&mut of_kind).collect();
        Self { ran: ran.iter().map(of_first).collect(), kinds, ends }
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

    /// Returns the time from the start of a layer of a kind to the start of the next part.
    pub(super) fn layer(&self, kind: usize) -> Span {
        let (parts, layers) = &self.kinds[kind];
        let all = self.ran[parts.end].1 - self.ran[parts.start].1;
        Span::from_ps(all.ps() / layers)
    }

    /// Returns the time after the layers; zero without a head.
    pub(super) fn behind(&self) -> Span {
        if !self.ends.has_head {
            return Span::ZERO;
        }
        self.ran[self.ran.len() - 1].2 - self.ran[self.last_norm()].1
    }

    /// Returns the total time of a part per layer of a kind.
    pub(super) fn in_layer(&self, kind: usize, part: StepPart) -> Span {
        let (parts, layers) = &self.kinds[kind];
        Span::from_ps(sum(&self.ran[parts.clone()], part).ps() / layers)
    }

    /// Returns the total time of a part outside the layers.
    pub(super) fn outside(&self, part: StepPart) -> Span {
        let behind = if self.ends.has_head { &self.ran[self.last_norm()..] } else { &[] };
        sum(&self.ran[..self.first_of_layers()], part) + sum(behind, part)
    }
}

fn sum(ran: &[(StepPart, Time, Time)], part: StepPart) -> Span {
    ran.iter().filter(|(kind, ..)| *kind == part).map(|&(_, began, ended)| ended - began).sum()
}

/// Returns the number of runs of a part per layer.
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

/// Returns the time at a position, interpolated linearly between known ones, which begin at 0. Beyond the last it is that
/// of the last. Positions are fractions with the denominator `each`.
pub(super) fn between(known: &[(u64, Span)], position: u64, each: u64) -> Span {
    let after = known.iter().position(|(at, _)| at * each > position);
    let Some(after) = after.filter(|after| *after > 0) else {
        return known.last().map_or(Span::ZERO, |(_, span)| *span);
    };
    let [(from, low), (to, high)] = [known[after - 1], known[after]];
    let [done, all] = [position - from * each, (to - from) * each].map(i128::from);
    let [low, high] = [low, high].map(|span| i128::from(span.ps()));
    let time = low + (high - low) * done / all;
    Span::from_ps(u64::try_from(time).expect("it is between two times"))
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

    #[test]
    fn times_between_positions_are_interpolated() {
        let known = [(0, Span::from_ps(100)), (2, Span::from_ps(300))];
        let at = |position| between(&known, position, 10).ps();
        assert_eq!([0, 5, 10, 20, 25].map(at), [100, 150, 200, 300, 300]);
    }
}
