//! Compares known figures with simulated ones.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A [`Check`] has an expected figure, its source and its tolerance. Running it measures our figure on a fresh machine
//! or engine and returns a [`Row`]. No expected figure comes from the code under test. Some are published figures or
//! textbook laws. The others are [our own arithmetic](Check::own): worked out by hand, or closed forms that share only
//! the rules (`docs/machine-rules.md`) with the engine. They show that the engine follows the rules, but nothing about
//! hardware. `docs/validation.md` describes each family, and the figures that were left out.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_validate::{Verdict, checks};
//!
//! let small = Topology::read("small.yaml", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n")?;
//! let all = checks(&small);
//! let local = all.iter().find(|check| check.name().starts_with("pe0 reads its own HBM")).unwrap();
//! assert_eq!(local.run().verdict, Verdict::Passed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod collectives;
mod expected;
mod golden;
mod hbm;
mod lone;
mod mesh;
mod published;
mod queueing;
mod traffic;
mod wires;

pub use expected::{CheckKind, Expected, Relation};

use std::fmt;

use cubeyard_device::topology::Topology;
use serde::{Serialize, Serializer};

/// Reason why a check of the default machine is left out on another one.
const OTHER_MACHINE: &str = "the figure is for the default topology";

/// An expected figure, and the measurement to compare with it.
pub struct Check<'t> {
    /// Result, before anything is measured.
    row: Row,
    /// Whether the check applies to the default machine only.
    default_only: bool,
    /// Reason why the check is left out, if it is.
    left_out: Option<&'static str>,
    measure: Box<dyn Fn() -> f64 + 't>,
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("name", &self.row.name).finish_non_exhaustive()
    }
}

impl<'t> Check<'t> {
    /// Creates a check whose expected figure comes from `source`, and our figure from `measure`.
    pub fn new(
        kind: CheckKind,
        name: impl Into<String>,
        expected: Expected,
        source: &'static str,
        measure: impl Fn() -> f64 + 't,
    ) -> Self {
        let row = Row {
            family: "",
            name: name.into(),
            expected,
            ours: None,
            deviation: None,
            kind,
            verdict: Verdict::LeftOut,
            source,
            own: false,
            reason: None,
        };
        Self { row, default_only: false, left_out: None, measure: Box::new(measure) }
    }

    /// Adds the reason why the check is only indicative, or another remark for the reader.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self { row: Row { reason: Some(reason), ..self.row }, ..self }
    }

    /// Marks the expected figure as our own arithmetic on our own rules: agreement only shows that the engine follows
    /// the rules.
    #[must_use]
    pub fn own(self) -> Self {
        Self { row: Row { own: true, ..self.row }, ..self }
    }

    /// Marks the check as applying to the default machine only.
    #[must_use]
    fn on_default(self) -> Self {
        Self { default_only: true, ..self }
    }

    /// Sets the family of the check; [`checks`] sets it for its own checks.
    #[must_use]
    pub fn of_family(self, family: &'static str) -> Self {
        Self { row: Row { family, ..self.row }, ..self }
    }

    /// Returns the name of the measured quantity.
    pub fn name(&self) -> &str {
        &self.row.name
    }

    /// Returns the family of the check.
    pub fn family(&self) -> &'static str {
        self.row.family
    }

    /// Returns the source of the expected figure.
    pub fn source(&self) -> &'static str {
        self.row.source
    }

    /// Measures and compares, unless the check is left out.
    pub fn run(&self) -> Row {
        if let Some(reason) = self.left_out {
            return Row { reason: Some(reason), ..self.row.clone() };
        }
        let ours = (self.measure)();
        let within = |tolerance| {
            let passes = self.row.expected.admits(ours, tolerance);
            if passes { Verdict::Passed } else { Verdict::Failed }
        };
        let verdict = match self.row.kind {
            CheckKind::Indicative => Verdict::Shown,
            CheckKind::Exact => within(0.0),
            CheckKind::Calibrated | CheckKind::Predicted => within(expected::TOLERANCE),
        };
        let deviation = self.row.expected.deviation(ours);
        Row { ours: Some(ours), deviation, verdict, ..self.row.clone() }
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The measurement is within the tolerance.
    Passed,
    /// The measurement is outside the tolerance.
    Failed,
    /// The check is indicative, so the measurement is shown but not judged.
    Shown,
    /// The check does not apply to this machine and was not run.
    LeftOut,
}

/// Whether the check passed; null if it is not judged.
impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Passed => to.serialize_bool(true),
            Self::Failed => to.serialize_bool(false),
            Self::Shown | Self::LeftOut => to.serialize_none(),
        }
    }
}

/// Report of `cubeyard validate`: the result of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Family of the check.
    pub family: &'static str,
    /// Name of the measured quantity.
    pub name: String,
    /// Expected figure, with its relation and unit.
    #[serde(flatten)]
    pub expected: Expected,
    /// Measured figure; `None` if the check was left out.
    pub ours: Option<f64>,
    /// Relative deviation from the expected figure, or from the bound if it is violated. `None` if nothing was measured,
    /// or if the expected figure is zero and ours is not.
    pub deviation: Option<f64>,
    /// Tolerance of the comparison.
    pub kind: CheckKind,
    /// Outcome of the check.
    #[serde(rename = "ok")]
    pub verdict: Verdict,
    /// Source of the expected figure.
    pub source: &'static str,
    /// Whether the expected figure is our own arithmetic on our own rules.
    pub own: bool,
    /// Reason why the check is indicative or was left out, or another remark.
    pub reason: Option<&'static str>,
}

/// Constructor of the checks of a family.
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

/// Returns all checks for a machine of this topology. Checks of the default machine are marked as left out on another
/// one.
pub fn checks(topology: &Topology) -> Vec<Check<'_>> {
    let is_other = topology.spec() != Topology::embedded().spec();
    let family = |(family, checks): (&'static str, Checks)| {
        checks(topology).into_iter().map(move |check| {
            let left_out = (check.default_only && is_other).then_some(OTHER_MACHINE);
            Check { left_out, ..check.of_family(family) }
        })
    };
    FAMILIES.into_iter().flat_map(family).collect()
}

/// Runs all checks; checks that do not apply to this topology are included as left out.
pub fn run(topology: &Topology) -> Vec<Row> {
    checks(topology).iter().map(Check::run).collect()
}
