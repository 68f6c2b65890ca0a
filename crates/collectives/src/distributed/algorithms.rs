//! The algorithms of a process group: each that may be chosen among its ranks, wired.
//!
//! All channels are installed when the group is made, all or nothing (ADR-0047 D3). Wiring an algorithm when it
//! is first chosen would add to the time of that call, and could fail for lack of memory in the middle of a
//! program.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Context, Tensor};
use cubeyard_sim::Span;

use super::ccl::{CclAlgorithm, CclConfig, Cost, excludes_size, is_less};
use super::config::{GroupConfig, Ranks};
use super::error::DistError;
use super::group::{Group, Pending, check_root};
use crate::collective::{Direct, Operation, Orders, ReduceOp};
use cubeyard_tl::launch::Launcher;

/// Binary logarithm of the largest size for which the choice of algorithms is explored.
const LONGEST: u32 = 40;

/// The wired algorithms of a process group.
#[derive(Debug)]
pub(super) struct Algorithms {
    pub(super) sips: Vec<SipId>,
    /// The group of each algorithm, and the sizes in bytes for which it may be chosen.
    groups: Vec<(Group, RangeInclusive<u64>)>,
    /// Group for barriers and point-to-point transfers.
    pub(super) direct: Group,
    /// A number on each rank, for barriers.
    tokens: Vec<Tensor>,
    costs: RefCell<BTreeMap<(usize, Operation), Option<Cost>>>,
}

impl Algorithms {
    /// Wires some SIPs. Each algorithm that is needed takes a group number.
    pub(super) fn wire(
        context: &Context,
        ccl: &CclConfig,
        sips: Vec<SipId>,
        number: impl Fn() -> Result<u16, DistError>,
    ) -> Result<Self, DistError> {
        let of_these = |config: &GroupConfig| {
            let (sips, cubes) = (sips.clone(), Vec::new());
            GroupConfig { ranks: Ranks::Sip, world_size: None, sips, cubes, ring: config.ring }
        };
        let direct = Group::new(context, &of_these(&ccl.defaults), Box::new(Direct), number()?)?;
        let mut groups = Vec::new();
        for algorithm in candidates(context, ccl, &of_these, sips.len())? {
            let config = of_these(&algorithm.config);
            let group = Group::new(context, &config, algorithm.algorithm(), number()?)?;
            groups.push((group, algorithm.bytes.clone()));
        }
        let token = |&sip: &SipId| -> Result<Tensor, DistError> {
            Ok(context.zeros(&[1], DType::I32)?.to(&Placement::one(sip))?)
        };
        let tokens = sips.iter().map(token).collect::<Result<_, _>>()?;
        Ok(Self { sips, groups, direct, tokens, costs: RefCell::default() })
    }

    /// Returns the names of the wired algorithms.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.groups.iter().map(|(group, _)| group.algorithm()).collect()
    }

    /// Begins an operation by the fastest algorithm for its size, as far as estimates are known.
    pub(super) fn begin(
        &self,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        let size = tensors.iter().map(|(input, output)| input.nbytes().max(output.nbytes())).max();
        check_root(operation, self.direct.world())?;
        let group = self.choose(launcher.context(), operation, size.unwrap_or_default().get())?;
        group.begin(launcher, operation, tensors)
    }

    /// Returns the orders of a reduction by the algorithm that [`begin`](Self::begin) uses for inputs like this one,
    /// with outputs that are no larger.
    pub(super) fn orders(
        &self,
        context: &Context,
        operation: Operation,
        input: &Tensor,
    ) -> Result<Option<Vec<Orders>>, DistError> {
        check_root(operation, self.direct.world())?;
        self.choose(context, operation, input.nbytes().get())?.orders(operation, input)
    }

    fn choose(
        &self,
        context: &Context,
        operation: Operation,
        size: u64,
    ) -> Result<&Group, DistError> {
        let mut whys = Vec::new();
        let mut best: Option<(Option<Span>, &Group)> = None;
        for (place, (group, sizes)) in self.groups.iter().enumerate() {
            let refused = group.refuses(operation);
            if let Some(why) = refused.or_else(|| excludes_size(sizes, size)) {
                whys.push(format!("{}: {why}", group.algorithm()));
                continue;
            }
            let time = self.cost(context, place, operation).and_then(|cost| cost.span(size));
            if best.as_ref().is_none_or(|(least, _)| is_less(time, *least)) {
                best = Some((time, group));
            }
        }
        let none = || DistError::Refused { algorithm: "ahbm", why: whys.join("; ") };
        best.map(|(_, group)| group).ok_or_else(none)
    }

    fn cost(&self, context: &Context, place: usize, operation: Operation) -> Option<Cost> {
        if let Some(known) = self.costs.borrow().get(&(place, operation)) {
            return *known;
        }
        let cost = self.groups[place].0.cost(context, operation);
        self.costs.borrow_mut().insert((place, operation), cost);
        cost
    }

    /// Begins a barrier, which ends when every member's device has heard from every other.
    pub(super) fn barrier(&self, launcher: &Launcher) -> Result<Pending, DistError> {
        let tokens: Vec<_> = self.tokens.iter().map(|token| (token, token)).collect();
        self.direct.begin(launcher, Operation::AllReduce(ReduceOp::Max), &tokens)
    }
}

/// Returns the algorithms that may be chosen among some ranks, for any operation and size: the forced one, or
/// those that are the fastest for some. The others are not wired, so they are not chosen.
fn candidates<'a>(
    context: &Context,
    ccl: &'a CclConfig,
    of_these: &dyn Fn(&GroupConfig) -> GroupConfig,
    ranks: usize,
) -> Result<Vec<&'a CclAlgorithm>, DistError> {
    if let Some(name) = &ccl.forced {
        return Ok(vec![ccl.named(name)?]);
    }
    let mut ours = ccl.clone();
    ours.each(|config| *config = of_these(config));
    // Algorithms with a world size of their own do not apply here.
    let is_ours = |own: &CclAlgorithm| own.config.world_size == ccl.defaults.world_size;
    let kept: Vec<_> = ccl.algorithms.iter().map(is_ours).collect();
    let mut kept = kept.into_iter();
    ours.algorithms.retain(|_| kept.next().unwrap_or(false));
    let chosen = context.machine(|machine| ours.choices(machine.topology(), ranks, LONGEST))?;
    if chosen.is_empty() {
        let why = format!("the file has no algorithm for {ranks} ranks of these SIPs");
        return Err(DistError::Refused { algorithm: "auto", why });
    }
    Ok(ccl.algorithms.iter().filter(|algorithm| chosen.contains(&algorithm.name)).collect())
}
