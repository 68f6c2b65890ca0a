//! Expected figures and their tolerances.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

/// Tolerance of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// No deviation is allowed.
    Exact,
    /// Within 2 %; the figure was used to choose the parameters of the default machine.
    Calibrated,
    /// Within 2 %; the figure was not used to choose any parameter.
    Predicted,
    /// Never a failure, for the reason stated by the check.
    Indicative,
}

/// Relative tolerance of calibrated and predicted figures.
pub(super) const TOLERANCE: f64 = 0.02;

impl fmt::Display for CheckKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exact => "exact",
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Indicative => "indicative",
        })
    }
}

/// Relation between the measured and the expected figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The measured figure equals the expected one.
    Equal,
    /// The measured figure is not greater.
    AtMost,
    /// The measured figure is not less.
    AtLeast,
}

/// A figure with its unit, and the relation that ours must have to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Unit of the figure; empty for a count.
    pub unit: &'static str,
    /// Relation that the measured figure must have to this one.
    pub relation: Relation,
    /// Value of the figure.
    #[serde(rename = "expected")]
    pub value: f64,
}

impl Expected {
    /// Expects this value.
    pub const fn equal(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::Equal, value, unit }
    }

    /// Expects this many nanoseconds.
    pub const fn ns(value: f64) -> Self {
        Self::equal(value, "ns")
    }

    /// Expects this value or less.
    pub const fn at_most(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::AtMost, value, unit }
    }

    /// Expects this value or more.
    pub const fn at_least(value: f64, unit: &'static str) -> Self {
        Self { relation: Relation::AtLeast, value, unit }
    }

    /// Returns the relative deviation of a measured figure, or from the bound if it is violated. `None` if the expected
    /// figure is zero and the measured one is not.
    pub(super) fn deviation(&self, ours: f64) -> Option<f64> {
        let difference = ours - self.value;
        let off = match self.relation {
            Relation::Equal => difference,
            Relation::AtMost => difference.max(0.0),
            Relation::AtLeast => difference.min(0.0),
        };
        if off.abs().total_cmp(&0.0) == Ordering::Equal {
            return Some(0.0);
        }
        Some(off / self.value).filter(|relative| relative.is_finite())
    }

    /// Returns whether a measured figure satisfies the relation, within a relative tolerance.
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
