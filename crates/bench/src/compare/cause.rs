//! Cause of a difference in time, as sentences.

use cubeyard_sim::Span;
use cubeyard_units::text::{significant, span, whole_percent};

use super::{Pair, RowComparison};

/// Fraction of a difference that the named parts of the critical path explain, if [`NAMED`] parts are enough.
const EXPLAINED: f64 = 0.8;
/// Maximum number of named parts.
const NAMED: usize = 3;
/// Minimum fraction of a difference for which parts that changed in the opposite direction are named.
const AGAINST: f64 = 0.1;
/// Ratio of two times from which it is given as a factor; smaller ratios are given in percent.
const SMALL: f64 = 1.1;
/// Difference in nanoseconds below which two times are equal: times are whole picoseconds.
const EQUAL: f64 = 0.0005;

impl RowComparison {
    /// Returns the cause of the difference in time, as sentences: the parts of the critical path that make it up, and the
    /// largest bounds.
    pub fn cause(&self) -> String {
        let [Some(a), Some(b)] = self.time_ns else { return self.only_one() };
        let sentences = [self.difference(a, b), self.parts(b - a), self.bounds(a, b)];
        let sentences: Vec<_> = sentences.into_iter().filter(|text| !text.is_empty()).collect();
        sentences.join(" ")
    }

    fn only_one(&self) -> String {
        match self.time_ns {
            [Some(_), None] => "Only A has it.".to_owned(),
            [None, Some(_)] => "Only B has it.".to_owned(),
            _ => "Neither has it.".to_owned(),
        }
    }

    fn difference(&self, a: f64, b: f64) -> String {
        if (a - b).abs() < EQUAL {
            return format!("Both take {}.", time(a));
        }
        let more = if b > a { "more" } else { "less" };
        let word = if b > a { "slower" } else { "faster" };
        let factor = self.ratio().map_or_else(String::new, |ratio| match ratio.max(1.0 / ratio) {
            small if small < SMALL => format!(", {} % {word}", significant((small - 1.0) * 100.0)),
            factor => format!(", {word} by a factor of {}", significant(factor)),
        });
        format!("B takes {} {more} than A{factor}.", time((b - a).abs()))
    }

    /// Names the parts of the critical path that explain a change.
    fn parts(&self, change: f64) -> String {
        if self.path_ns.is_empty() || !self.adds_up() {
            return String::new();
        }
        if change.abs() < EQUAL {
            let same = self.path_ns.iter().all(|part| part.change().abs() < EQUAL);
            let text =
                if same { "Every part of the critical path takes the same time." } else { "" };
            return text.to_owned();
        }
        let along = named(&self.sorted(change.signum()), change.abs());
        let against = self.sorted(-change.signum()).into_iter().take(1);
        let against: Vec<_> = against.filter(|(_, size)| size / change.abs() >= AGAINST).collect();
        let [more, less] = if change > 0.0 { ["more", "less"] } else { ["less", "more"] };
        let share = |size: f64| whole_percent(size / change.abs());
        let mut list: Vec<_> = along
            .iter()
            .map(|(part, size)| format!("{part} takes {} {more} ({})", time(*size), share(*size)))
            .collect();
        list.extend(against.iter().map(|(part, size)| format!("{part} {} {less}", time(*size))));
        format!("On the critical path, {}.{}", joined(&list), self.shift())
    }

    /// Names the longest part of each path, if they differ.
    fn shift(&self) -> String {
        let longest = |side: usize| {
            let parts = self.path_ns.iter().filter_map(|it| Some((&it.name, it.values[side]?)));
            parts.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(name, _)| name)
        };
        match (longest(0), longest(1)) {
            (Some(a), Some(b)) if a != b => format!(" Its longest part is {a} in A, {b} in B."),
            _ => String::new(),
        }
    }

    /// Returns whether the parts are known for both records, and add up to the times.
    fn adds_up(&self) -> bool {
        (0..2).all(|side| {
            let sum: f64 = self.path_ns.iter().filter_map(|part| part.values[side]).sum();
            self.time_ns[side].is_some_and(|time| (sum - time).abs() <= EQUAL.max(time * 1e-9))
        })
    }

    /// Returns the parts that changed in the given direction, largest change first.
    fn sorted(&self, direction: f64) -> Vec<(&str, f64)> {
        let size = |part: &Pair| part.change() * direction;
        let parts = self.path_ns.iter().filter(|part| size(part) >= EQUAL);
        let mut parts: Vec<_> = parts.map(|part| (part.name.as_str(), size(part))).collect();
        parts.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        parts
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

fn time(ns: f64) -> String {
    Span::from_ns(ns).map_or_else(|| format!("{} ns", significant(ns)), span)
}
