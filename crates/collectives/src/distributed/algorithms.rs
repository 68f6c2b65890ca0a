//! The wired algorithms of a process group: every algorithm that may be chosen for its ranks.
//!
//! All channels are installed when the group is made, all or nothing (ADR-0047 D3). Wiring an algorithm when it
//! is first chosen would add to the time of that call, and could fail for lack of memory in the middle of a
//! program.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Context, Tensor};

use super::ccl::{CclAlgorithm, CclConfig};
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
    /// The algorithms that may be chosen, for these SIPs.
    ccl: CclConfig,
    /// The group of each algorithm.
    groups: Vec<Group>,
    /// Group for barriers and point-to-point transfers.
    pub(super) direct: Group,
    /// A number on each rank, for barriers.
    tokens: Vec<Tensor>,
    /// Indices of the algorithms chosen so far, by operation, element type and size in bytes.
    chosen: RefCell<BTreeMap<(Operation, DType, u64), usize>>,
}

impl Algorithms {
    /// Wires SIPs for every algorithm that may be chosen. Each algorithm takes a group number.
    pub(super) fn wire(
        context: &Context,
        ccl: &CclConfig,
        sips: Vec<SipId>,
        number: impl Fn() -> Result<u16, DistError>,
    ) -> Result<Self, DistError> {
        let ccl = candidates(context, ccl, &sips)?;
        let direct = Group::new(context, &ccl.defaults, Box::new(Direct), number()?)?;
        let wired =
            |own: &CclAlgorithm| Group::new(context, &own.config, own.algorithm(), number()?);
        let groups = ccl.algorithms.iter().map(wired).collect::<Result<_, _>>()?;
        let token = |&sip: &SipId| -> Result<Tensor, DistError> {
            Ok(context.zeros(&[1], DType::I32)?.to(&Placement::one(sip))?)
        };
        let tokens = sips.iter().map(token).collect::<Result<_, _>>()?;
        Ok(Self { sips, ccl, groups, direct, tokens, chosen: RefCell::default() })
    }

    /// Returns the names of the wired algorithms.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.groups.iter().map(Group::algorithm).collect()
    }

    /// Begins an operation by the fastest algorithm for its size.
    pub(super) fn begin(
        &self,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        let size = tensors.iter().map(|(input, output)| input.nbytes().max(output.nbytes())).max();
        let dtype = tensors.first().map_or(DType::F32, |(input, _)| input.dtype());
        let size = size.unwrap_or_default().get();
        let group = self.choose(launcher.context(), operation, dtype, size)?;
        group.begin(launcher, operation, tensors)
    }

    /// Returns the orders of a reduction by the algorithm that [`begin`](Self::begin) uses for inputs like this one.
    /// Outputs are no larger than inputs.
    pub(super) fn orders(
        &self,
        context: &Context,
        operation: Operation,
        input: &Tensor,
    ) -> Result<Option<Vec<Orders>>, DistError> {
        let group = self.choose(context, operation, input.dtype(), input.nbytes().get())?;
        group.orders(operation, input)
    }

    /// Returns the group of the algorithm that [`CclConfig::resolve`] returns, once for each operation, type and size.
    fn choose(
        &self,
        context: &Context,
        operation: Operation,
        dtype: DType,
        size: u64,
    ) -> Result<&Group, DistError> {
        check_root(operation, self.direct.world())?;
        let known = self.chosen.borrow().get(&(operation, dtype, size)).copied();
        if let Some(place) = known {
            return Ok(&self.groups[place]);
        }
        let name = context.machine(|machine| {
            Ok::<_, DistError>(self.ccl.resolve(machine.topology(), operation, dtype, size)?.name)
        })?;
        let place = self.ccl.algorithms.iter().position(|own| own.name == name);
        let place = place.expect("one of these was chosen");
        self.chosen.borrow_mut().insert((operation, dtype, size), place);
        Ok(&self.groups[place])
    }

    /// Begins a barrier, which ends when every member's device has heard from every other.
    pub(super) fn barrier(&self, launcher: &Launcher) -> Result<Pending, DistError> {
        let tokens: Vec<_> = self.tokens.iter().map(|token| (token, token)).collect();
        self.direct.begin(launcher, Operation::AllReduce(ReduceOp::Max), &tokens)
    }
}

/// Returns the algorithms that may be chosen among the ranks of some SIPs.
///
/// These are the forced algorithm, or all algorithms that may be the fastest for some operation and size. Others are
/// not wired, so they are not chosen.
fn candidates(context: &Context, ccl: &CclConfig, sips: &[SipId]) -> Result<CclConfig, DistError> {
    let mut ours = ccl.clone();
    match &ccl.forced {
        Some(name) => ours.algorithms = vec![ccl.named(name)?.clone()],
        // Algorithms with a world size of their own do not apply here.
        None => ours.algorithms.retain(|own| own.config.world_size == ccl.defaults.world_size),
    }
    ours.each(|config| {
        let (sips, cubes) = (sips.to_vec(), Vec::new());
        *config =
            GroupConfig { ranks: Ranks::Sip, world_size: None, sips, cubes, ring: config.ring };
    });
    if ccl.forced.is_some() {
        return Ok(ours);
    }
    let chosen =
        context.machine(|machine| ours.choices(machine.topology(), sips.len(), LONGEST))?;
    if chosen.is_empty() {
        let why = format!("the file has no algorithm for {} ranks of these SIPs", sips.len());
        return Err(DistError::Refused { algorithm: "auto", why });
    }
    ours.algorithms.retain(|own| chosen.contains(&own.name));
    Ok(ours)
}
