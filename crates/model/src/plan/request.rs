//! Plans as written by the user: `tp=2,pp=4`, or `auto`.

use std::str::FromStr;

use cubeyard_yaml::nearest;

use super::{Plan, PlanError};
use crate::cut::{ExpertPlacement, Routing};
use crate::spec::ModelSpec;

/// Keys of a plan.
const KEYS: [&str; 4] = ["tp", "pp", "dp", "ep"];
/// Maximum value of a key.
const MOST: u64 = 1 << 12;

/// Choice of a plan: the fastest of all, or a given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanChoice {
    /// The fastest plan that fits.
    Auto,
    /// A plan of which some keys are given.
    Given(PlanRequest),
}

impl FromStr for PlanChoice {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Given) }
    }
}

/// Keys of a plan that were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanRequest {
    /// Number of SIPs of a group; by default, all SIPs over `pp` and `dp`.
    pub tp: Option<u64>,
    /// Number of stages, 1 by default.
    pub pp: Option<u64>,
    /// Number of replicas, 1 by default.
    pub dp: Option<u64>,
    /// Number of places of experts; by default, as given by the workload.
    pub ep: Option<u64>,
}

impl FromStr for PlanRequest {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut request = Self::default();
        for part in text.split(',') {
            let found = || PlanError::Text { found: part.to_owned() };
            let (key, value) = part.split_once('=').ok_or_else(found)?;
            let (key, value) = (key.trim(), value.trim());
            let (key, place) = request.place(key)?;
            if place.replace(number(key, value)?).is_some() {
                return Err(PlanError::Twice { key });
            }
        }
        Ok(request)
    }
}

fn number(key: &'static str, value: &str) -> Result<u64, PlanError> {
    let number = value.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| PlanError::Number { key, value: value.to_owned(), most: MOST })
}

impl PlanRequest {
    /// Returns the name and the place of a key.
    fn place(&mut self, key: &str) -> Result<(&'static str, &mut Option<u64>), PlanError> {
        match key {
            "tp" => Ok(("tp", &mut self.tp)),
            "pp" => Ok(("pp", &mut self.pp)),
            "dp" => Ok(("dp", &mut self.dp)),
            "ep" => Ok(("ep", &mut self.ep)),
            key => {
                let nearest = nearest(key, KEYS.into_iter()).unwrap_or("tp").to_owned();
                Err(PlanError::Key { key: key.to_owned(), nearest })
            }
        }
    }

    /// Returns the plan for a number of SIPs.
    pub fn plan(&self, sips: u64) -> Result<Plan, PlanError> {
        let (pp, dp) = (self.pp.unwrap_or(1), self.dp.unwrap_or(1));
        let is_even = sips >= pp * dp && sips.is_multiple_of(pp * dp);
        if self.tp.is_none() && !is_even {
            return Err(PlanError::Undivided { pp, dp, sips });
        }
        let plan = Plan { tp: self.tp.unwrap_or(sips / (pp * dp)), pp, dp };
        if plan.sips() > sips {
            return Err(plan.too_large(sips));
        }
        Ok(plan)
    }

    /// Returns the placement of experts that has `ep` places on the SIPs of a group; `None` if `ep` is not given.
    ///
    /// ```
    /// use cubeyard_model::ModelSpec;
    /// use cubeyard_model::cut::ExpertPlacement;
    /// use cubeyard_model::plan::{Plan, PlanRequest};
    /// use cubeyard_model::spec::{Experts, Family};
    ///
    /// let experts = Some(Experts { count: 8, active: 2 });
    /// let dense = ModelSpec::named("llama-8b")?;
    /// let spec = ModelSpec { family: Family { experts, ..Family::default() }, ..dense.clone() };
    /// let (plan, cubes) = (Plan { tp: 2, pp: 1, dp: 1 }, 16);
    /// let placement = |ep, spec: &ModelSpec| {
    ///     PlanRequest { ep: Some(ep), ..PlanRequest::default() }.placement(spec, plan, cubes)
    /// };
    /// assert_eq!(placement(2, &spec), Ok(Some(ExpertPlacement::Sip)));
    /// assert_eq!(placement(8, &spec), Ok(Some(ExpertPlacement::Cube)));
    /// let error = placement(3, &spec).unwrap_err().to_string();
    /// assert_eq!(error, "plan: ep=3: expected one of 1, 2, 8, the places of 8 experts on the SIPs of a group");
    /// assert!(placement(2, &dense).is_err());
    /// # Ok::<(), cubeyard_model::ModelError>(())
    /// ```
    pub fn placement(
        &self,
        spec: &ModelSpec,
        plan: Plan,
        cubes: u64,
    ) -> Result<Option<ExpertPlacement>, PlanError> {
        let Some(ep) = self.ep else { return Ok(None) };
        let Some(experts) = spec.family.experts else {
            let expected = format!("1, since {} has no experts", spec.name);
            return if ep == 1 { Ok(None) } else { Err(PlanError::Experts { ep, expected }) };
        };
        let places = |placement| Routing::new(experts, placement, 1, [plan.tp, cubes]).places;
        let all = ExpertPlacement::NAMES.map(|(_, placement)| (placement, places(placement)));
        if let Some((placement, _)) = all.iter().find(|(_, places)| *places == ep) {
            return Ok(Some(*placement));
        }
        let mut known: Vec<_> = all.iter().map(|(_, places)| places.to_string()).collect();
        known.dedup();
        let (known, count) = (known.join(", "), experts.count);
        let expected =
            format!("one of {known}, the places of {count} experts on the SIPs of a group");
        Err(PlanError::Experts { ep, expected })
    }
}
