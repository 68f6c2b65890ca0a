//! Plans: division of the SIPs of a world into tensor-parallel groups, pipeline stages and data-parallel replicas.
//!
//! | key | division |
//! |---|---|
//! | `tp` | SIPs of a group, which divide every layer as a [`Cut`](crate::cut) does |
//! | `pp` | stages, each with some of the layers; the first has the embedding, the last the head |
//! | `dp` | replicas of the whole model, each with some of the sequences |
//!
//! SIPs are numbered machine by machine. A group has consecutive SIPs, the stages of a replica have consecutive groups,
//! and replicas follow each other. Layers and sequences need not divide evenly: the first stages and the first replicas
//! have one more.
//!
//! Each stage is [measured](measure_plan) on its own SIPs, and so is the transfer of tokens from stage to stage. Stages and
//! transfers whose routes have the same form take equally long, and are simulated once. Replicas share no link, so they
//! do not slow each other down.
//!
//! ```
//! use cubeyard_model::plan::{Plan, PlanRequest};
//!
//! let request: PlanRequest = "pp=2".parse()?;
//! let plan = request.plan(8)?;
//! assert_eq!(plan, Plan { tp: 4, pp: 2, dp: 1 });
//! assert_eq!(plan.to_string(), "tp=4,pp=2,dp=1");
//! // 7 layers: the first stage has one more.
//! assert_eq!([0, 1].map(|stage| plan.layers_of(stage, 7)), [4, 3]);
//! # Ok::<(), cubeyard_model::plan::PlanError>(())
//! ```

mod boundary;
mod division;
mod json;
mod report;
mod request;
mod routes;
mod search;
mod stage;
mod world;

use std::fmt;

use serde::Serialize;

pub use crate::error::PlanError;
pub use division::{Objective, PlanConfig};
pub use report::{BoundaryReport, PlanReport, StageReport};
pub use request::{PlanChoice, PlanRequest};
pub use search::{Candidate, Outcome, PlanSearch, search};
pub use stage::measure_plan;
pub use world::{Network, World};

/// Division of SIPs: the size of a tensor-parallel group, the number of pipeline stages, and the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Plan {
    /// Number of SIPs of a tensor-parallel group.
    pub tp: u64,
    /// Number of pipeline stages of a replica.
    pub pp: u64,
    /// Number of data-parallel replicas.
    pub dp: u64,
}

impl Plan {
    /// Returns the number of SIPs that the plan uses.
    pub fn sips(&self) -> u64 {
        self.tp.saturating_mul(self.pp).saturating_mul(self.dp)
    }

    /// Returns the error of a plan that needs more than `sips` SIPs.
    fn too_large(&self, sips: u64) -> PlanError {
        PlanError::Sips { plan: self.to_string(), used: self.sips(), sips }
    }

    /// Returns the number of layers of a stage, of `layers` in all. The first stages have one more, if the number of
    /// stages does not divide the layers.
    pub fn layers_of(&self, stage: u64, layers: u64) -> u64 {
        layers / self.pp + u64::from(stage < layers % self.pp)
    }

    /// Returns the number of the first SIP of a stage of a replica, counted over all machines.
    pub fn first_sip(&self, replica: u64, stage: u64) -> u64 {
        (replica * self.pp + stage) * self.tp
    }

    /// Returns all plans whose number of SIPs divides `sips`, in order of size.
    ///
    /// ```
    /// use cubeyard_model::plan::Plan;
    ///
    /// let plans = Plan::all(2).into_iter().map(|plan| plan.to_string());
    /// let expected = ["tp=1,pp=1,dp=1", "tp=1,pp=1,dp=2", "tp=1,pp=2,dp=1", "tp=2,pp=1,dp=1"];
    /// assert_eq!(plans.collect::<Vec<_>>(), expected);
    /// ```
    pub fn all(sips: u64) -> Vec<Self> {
        let divisors = |of: u64| (1..=of).filter(move |divisor| of.is_multiple_of(*divisor));
        let plans = divisors(sips).flat_map(|tp| {
            let stages = divisors(sips / tp);
            stages.flat_map(move |pp| divisors(sips / tp / pp).map(move |dp| Self { tp, pp, dp }))
        });
        plans.collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tp={},pp={},dp={}", self.tp, self.pp, self.dp)
    }
}
