//! Every figure that we know from elsewhere, with ours beside it.
//!
//! A [`Check`] says what is expected, who says so, and how strictly; running it measures ours on a fresh
//! machine or engine and gives a [`Row`]. No expected figure comes from the code that is measured. Some are
//! published, or textbook laws. The others are [our own arithmetic](Check::own): worked out by hand, or closed forms
//! that share nothing with the engine but the rules (`docs/machine-rules.md`). They show that the engine does
//! what the rules say, and nothing about hardware. `docs/validation.md` says what each family is, and what was left out.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_device::validate::{self, Verdict};
//!
//! let small = Topology::read("small.yaml", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n")?;
//! let checks = validate::checks(&small);
//! let local = checks.iter().find(|check| check.name().starts_with("pe0 reads its own HBM")).unwrap();
//! assert_eq!(local.run().verdict, Verdict::Passed);
//! # Ok::<(), cubeyard_device::input::InputError>(())
//! ```

mod expected;
mod golden;
mod hbm;
mod lone;
mod mesh;
mod published;
mod queueing;
mod traffic;
mod wires;

pub use expected::{Expected, Kind, Relation};

use std::cmp::Ordering;
use std::fmt;

use crate::topology::Topology;

/// Why a check of the default machine is left out for another.
const OTHER_MACHINE: &str = "the figure is for the default topology";

/// A figure, and how to get ours.
pub struct Check<'t> {
    family: &'static str,
    name: String,
    kind: Kind,
    expected: Expected,
    source: &'static str,
    reason: Option<&'static str>,
    /// Whether the expected figure is our own arithmetic.
    own: bool,
    /// Whether it means something on the default machine only.
    default_only: bool,
    /// Why it is not to be run, if it is not.
    left_out: Option<&'static str>,
    measure: Box<dyn Fn() -> f64 + 't>,
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'t> Check<'t> {
    /// A check whose expected figure comes from `source`, and ours from `measure`.
    pub fn new(
        kind: Kind,
        name: impl Into<String>,
        expected: Expected,
        source: &'static str,
        measure: impl Fn() -> f64 + 't,
    ) -> Self {
        Self {
            family: "",
            name: name.into(),
            kind,
            expected,
            source,
            reason: None,
            own: false,
            default_only: false,
            left_out: None,
            measure: Box::new(measure),
        }
    }

    /// Says why it is only indicative, or what else one must know to read it.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Says that the expected figure is our own arithmetic on our own rules: that ours agrees shows that the engine
    /// does what they say.
    #[must_use]
    pub fn own(self) -> Self {
        Self { own: true, ..self }
    }

    /// Says that it means something on the default machine only.
    #[must_use]
    fn on_default(self) -> Self {
        Self { default_only: true, ..self }
    }

    /// Says which family it belongs to; those of [`checks`] know theirs.
    #[must_use]
    pub fn of_family(self, family: &'static str) -> Self {
        Self { family, ..self }
    }

    /// What is measured.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The family that it belongs to.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// Measures ours and compares, unless it is to be left out.
    pub fn run(&self) -> Row {
        if let Some(reason) = self.left_out {
            return self.row(None, Verdict::LeftOut, Some(reason));
        }
        let ours = (self.measure)();
        let verdict = match self.kind {
            Kind::Indicative => Verdict::Shown,
            Kind::Exact if self.expected.admits(ours, 0.0) => Verdict::Passed,
            Kind::Calibrated | Kind::Predicted
                if self.expected.admits(ours, expected::TOLERANCE) =>
            {
                Verdict::Passed
            }
            _ => Verdict::Failed,
        };
        self.row(Some(ours), verdict, self.reason)
    }

    fn row(&self, ours: Option<f64>, verdict: Verdict, reason: Option<&'static str>) -> Row {
        Row {
            family: self.family,
            name: self.name.clone(),
            kind: self.kind,
            expected: self.expected,
            ours,
            verdict,
            source: self.source,
            own: self.own,
            reason,
        }
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ours compares as it should.
    Passed,
    /// It does not.
    Failed,
    /// It is indicative: nobody judges.
    Shown,
    /// It was not run.
    LeftOut,
}

/// A check that was run, or left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The family of the check.
    pub family: &'static str,
    /// What was measured.
    pub name: String,
    /// How strictly ours is held to it.
    pub kind: Kind,
    /// What was expected.
    pub expected: Expected,
    /// What was measured, unless the check was left out.
    pub ours: Option<f64>,
    /// What came of it.
    pub verdict: Verdict,
    /// Where the expected figure is from.
    pub source: &'static str,
    /// Whether that is our own arithmetic on our own rules.
    pub own: bool,
    /// Why it is indicative or was left out, or what else one must know.
    pub reason: Option<&'static str>,
}

impl Row {
    /// By how much ours is off, as a part of what was expected: more or less than it, or beyond the bound.
    /// None if there is nothing to compare, or nothing was expected and something was found.
    pub fn deviation(&self) -> Option<f64> {
        let difference = self.ours? - self.expected.value;
        let off = match self.expected.relation {
            Relation::Equal => difference,
            Relation::AtMost => difference.max(0.0),
            Relation::AtLeast => difference.min(0.0),
        };
        if off.abs().total_cmp(&0.0) == Ordering::Equal {
            return Some(0.0);
        }
        Some(off / self.expected.value).filter(|relative| relative.is_finite())
    }
}

/// Makes the checks of a family.
type Checks = for<'t> fn(&'t Topology) -> Vec<Check<'t>>;

/// All families, in the order in which they are shown.
const FAMILIES: [(&str, Checks); 6] = [
    ("published figures", published::checks),
    ("a lone transfer", lone::checks),
    ("ASTRA-sim golden values", golden::checks),
    ("mesh and torus", mesh::checks),
    ("queueing", queueing::checks),
    ("HBM", hbm::checks),
];

/// All checks, for a machine of this topology. Those that are about the default machine are to be left out
/// if this is another.
pub fn checks(topology: &Topology) -> Vec<Check<'_>> {
    let is_other = topology.spec() != Topology::embedded().spec();
    let family = |(family, checks): (&'static str, Checks)| {
        checks(topology).into_iter().map(move |check| {
            let left_out = (check.default_only && is_other).then_some(OTHER_MACHINE);
            Check { family, left_out, ..check }
        })
    };
    FAMILIES.into_iter().flat_map(family).collect()
}

/// Runs all checks that mean something for this topology; the others are in their places, left out.
pub fn run(topology: &Topology) -> Vec<Row> {
    checks(topology).iter().map(Check::run).collect()
}
