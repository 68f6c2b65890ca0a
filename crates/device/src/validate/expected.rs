//! What is expected, and how strictly.

use std::cmp::Ordering;
use std::fmt;

/// How strictly ours is held to what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No deviation is allowed.
    Exact,
    /// Within 2 %; the figure was used to choose the parameters of the default machine.
    Calibrated,
    /// Within 2 %; the figure was used for nothing.
    Predicted,
    /// Shown, and never a failure, for the reason that is given.
    Indicative,
}

/// How far calibrated and predicted figures may be off.
pub(super) const TOLERANCE: f64 = 0.02;

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Indicative => "indicative",
        })
    }
}

/// How ours is to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same.
    Equal,
    /// Not more.
    AtMost,
    /// Not less.
    AtLeast,
}

/// A figure that is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// How ours is to compare.
    pub relation: Relation,
    /// The figure.
    pub value: f64,
    /// Its unit; empty for a number of things.
    pub unit: &'static str,
}

impl Expected {
    /// Just this.
    pub const fn equal(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::Equal, value, unit }
    }

    /// So many nanoseconds.
    pub const fn ns(value: f64) -> Self {
        Self::equal(value, "ns")
    }

    /// This or less.
    pub const fn at_most(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::AtMost, value, unit }
    }

    /// This or more.
    pub const fn at_least(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::AtLeast, value, unit }
    }

    /// Whether ours compares as it should, with so much to spare.
    pub(super) fn admits(&self, ours: f64, tolerance: f64) -> bool {
        let slack = self.value.abs() * tolerance;
        match self.relation {
            Relation::Equal if tolerance > 0.0 => (ours - self.value).abs() <= slack,
            Relation::Equal => ours.total_cmp(&self.value) == Ordering::Equal,
            Relation::AtMost => ours <= self.value + slack,
            Relation::AtLeast => ours >= self.value - slack,
        }
    }
}
