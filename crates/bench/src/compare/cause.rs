//! Verdict on a difference in time, as sentences, and the share of each part of the critical path.

use cubeyard_sim::Span;
use cubeyard_units::text::{significant, span, whole_percent};

use super::{Pair, PartDifference, RowComparison};

/// Fraction of a difference that the named parts of the critical path explain, if [`NAMED`] parts are enough.
const EXPLAINED: f64 = 0.8;
/// Maximum number of named parts.
const NAMED: usize = 3;
/// Minimum fraction of a difference for which parts that changed in the opposite direction are named.
const AGAINST: f64 = 0.1;
/// Ratio of two times from which it is given as a factor; smaller ratios are given in percent.
const SMALL: f64 = 1.1;
/// Difference in nanoseconds below which two times are equal: times are whole picoseconds.
pub(super) const EQUAL: f64 = 0.0005;

impl RowComparison {
    /// Returns one sentence: the faster record, by how much it is faster, and because of which parts of the critical
    /// path.
    pub fn verdict(&self) -> String {
        let [Some(a), Some(b)] = self.time_ns else { return self.only_one() };
        if (a - b).abs() < EQUAL {
            return format!("A and B take the same time, {}.", time(a));
        }
        let ([fast, slow], [least, most]) =
            if b < a { (["B", "A"], [b, a]) } else { (["A", "B"], [a, b]) };
        let how = match self.ratio().map(|ratio| ratio.max(1.0 / ratio)) {
            None => format!("faster than {slow}"),
            Some(small) if small < SMALL => {
                format!("{} % faster than {slow}", significant((small - 1.0) * 100.0))
            }
            Some(factor) => {
                format!("faster than {slow} by a factor of {}", significant(factor))
            }
        };
        let (least, most) = (time(least), time(most));
        format!("{fast} is {how} ({least} instead of {most}){}.", self.reason(a - b))
    }

    /// Returns the verdict, followed by the [background](Self::background).
    pub fn cause(&self) -> String {
        joined_sentences([self.verdict(), self.background()])
    }

    /// Returns sentences on the longest parts of the critical paths and on the largest bounds; empty if neither is
    /// known.
    pub fn background(&self) -> String {
        let [Some(a), Some(b)] = self.time_ns else { return String::new() };
        let shift = if self.adds_up() { self.shift() } else { String::new() };
        joined_sentences([shift, self.bounds(a, b)])
    }

    fn only_one(&self) -> String {
        match self.time_ns {
            [Some(_), None] => "Only A has it.".to_owned(),
            [None, Some(_)] => "Only B has it.".to_owned(),
            _ => "Neither has it.".to_owned(),
        }
    }

    /// Returns a clause that names the parts of the critical path that take less time in the faster record, and the
    /// one that takes more. `change` is the time of A minus the time of B.
    fn reason(&self, change: f64) -> String {
        if !self.adds_up() {
            return String::new();
        }
        let less = named(&self.changed(-change.signum()), change.abs());
        let more = self.changed(change.signum()).into_iter().next();
        let more = more.filter(|(_, size)| size / change.abs() >= AGAINST);
        let takes = |at: usize, (part, size): &(&str, f64)| {
            let verb = if at == 0 { " takes" } else { "" };
            format!("{}{verb} {} less", quoted(part), time(*size))
        };
        let less: Vec<_> = less.iter().enumerate().map(|(at, it)| takes(at, it)).collect();
        let although = more.map_or_else(String::new, |(part, size)| {
            format!(", although {} takes {} more", quoted(part), time(size))
        });
        format!(", because {} on the critical path{although}", joined(&less))
    }

    /// Returns the parts of the critical path that changed, with their shares of the difference in time, largest share
    /// first. The shares add up to 1. Empty if the times are equal, or if the parts do not add up to the times.
    pub fn difference(&self) -> Vec<PartDifference> {
        let [Some(a), Some(b)] = self.time_ns else { return Vec::new() };
        if (a - b).abs() < EQUAL || !self.adds_up() {
            return Vec::new();
        }
        let sum: f64 = self.path_ns.iter().map(Pair::change).sum();
        let changed = self.path_ns.iter().filter(|part| part.change().abs() >= EQUAL);
        let part = |part: &Pair| {
            let (name, change_ns) = (part.name.clone(), part.change());
            PartDifference { name, change_ns, share: change_ns / sum }
        };
        let mut parts: Vec<_> = changed.map(part).collect();
        parts.sort_by(|one, other| {
            other.share.total_cmp(&one.share).then_with(|| one.name.cmp(&other.name))
        });
        parts
    }

    /// Returns the parts that changed in the given direction, largest change first.
    fn changed(&self, direction: f64) -> Vec<(&str, f64)> {
        let size = |part: &Pair| part.change() * direction;
        let parts = self.path_ns.iter().filter(|part| size(part) >= EQUAL);
        let mut parts: Vec<_> = parts.map(|part| (part.name.as_str(), size(part))).collect();
        parts.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        parts
    }

    /// Names the longest part of each path, if they differ.
    fn shift(&self) -> String {
        let longest = |side: usize| {
            let parts = self.path_ns.iter().filter_map(|it| Some((&it.name, it.values[side]?)));
            parts.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(name, _)| name)
        };
        match (longest(0), longest(1)) {
            (Some(a), Some(b)) if a != b => {
                format!("The longest part of the critical path is {a} in A, {b} in B.")
            }
            _ => String::new(),
        }
    }

    /// Returns whether the parts are known for both records, and add up to the times.
    pub(super) fn adds_up(&self) -> bool {
        !self.path_ns.is_empty()
            && (0..2).all(|side| {
                let sum: f64 = self.path_ns.iter().filter_map(|part| part.values[side]).sum();
                self.time_ns[side].is_some_and(|time| (sum - time).abs() <= EQUAL.max(time * 1e-9))
            })
    }

    /// Compares the largest bound of each record with its time.
    fn bounds(&self, a: f64, b: f64) -> String {
        let largest = |side: usize| {
            let bounds =
                self.bounds_ns.iter().filter_map(|it| Some((it.name.as_str(), it.values[side]?)));
            bounds
                .max_by(|(_, one), (_, other)| one.total_cmp(other))
                .filter(|(_, bound)| *bound > 0.0)
        };
        let (Some((of_a, least_a)), Some((of_b, least_b))) = (largest(0), largest(1)) else {
            return String::new();
        };
        let share = |bound: f64, time: f64| whole_percent(bound / time);
        let (share_a, share_b) = (share(least_a, a), share(least_b, b));
        if of_a == of_b && (least_a - least_b).abs() < EQUAL {
            return format!(
                "The largest bound is the same, {of_a} with {}: {share_a} of A, {share_b} of B.",
                time(least_a)
            );
        }
        let (least_a, least_b) = (time(least_a), time(least_b));
        if of_a == of_b {
            return format!(
                "The largest bound, {of_a}, goes from {least_a} ({share_a} of A) to {least_b} ({share_b} of B)."
            );
        }
        format!(
            "The largest bound of A is {of_a} with {least_a} ({share_a}); the largest bound of B is {of_b} with {least_b} ({share_b})."
        )
    }
}

/// Returns the first parts that together explain most of a change.
fn named<'a>(parts: &[(&'a str, f64)], change: f64) -> Vec<(&'a str, f64)> {
    let (mut named, mut sum) = (Vec::new(), 0.0);
    for &(part, size) in parts.iter().take(NAMED) {
        if sum >= EXPLAINED * change {
            break;
        }
        named.push((part, size));
        sum += size;
    }
    named
}

fn joined(parts: &[String]) -> String {
    match parts {
        [] => "no part".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Quotes a name that contains a comma, which would read as two names.
fn quoted(name: &str) -> String {
    if name.contains(',') { format!("“{name}”") } else { name.to_owned() }
}

fn joined_sentences<const N: usize>(sentences: [String; N]) -> String {
    let sentences: Vec<_> = sentences.into_iter().filter(|text| !text.is_empty()).collect();
    sentences.join(" ")
}

fn time(ns: f64) -> String {
    Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span)
}
