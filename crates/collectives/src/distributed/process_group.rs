//! Groups of some of the ranks: `torch.distributed.new_group`.
//!
//! The members of a group are numbered by their order in it. Groups are independent: each has its own channels
//! and matches calls by itself, so several can be active at the same time, even with members in common.

use std::fmt;
use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::Tensor;

use super::algorithms::Algorithms;
use super::error::listed;
use super::{CclConfig, CollectiveReport, DistError, Distributed, Pending};
use crate::collective::{Operation, Orders};

/// Some ranks of the world, as a group. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessGroup {
    id: u32,
    members: Rc<[usize]>,
}

impl ProcessGroup {
    /// Returns the number of ranks in the group.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the members as ranks of the world; the index of each is its rank in the group.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// Returns the group rank of a rank of the world; `None` if the rank is not a member.
    pub fn rank_of(&self, rank: usize) -> Option<usize> {
        self.members.iter().position(|&member| member == rank)
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

/// Writes the members as ranks of the world, e.g. `0, 2`.
impl fmt::Display for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.members))
    }
}

impl Distributed {
    /// Returns the group of all ranks.
    pub fn world(&self) -> Result<ProcessGroup, DistError> {
        self.with(|backend| Ok(backend.world.clone()))
    }

    /// Makes a group of some ranks of the world, in this order, and wires it: all of it or nothing.
    ///
    /// If the SIPs of its members form a rectangle of the SIPs' grid, row by row, the group is arranged as a
    /// grid, else as a ring.
    pub fn new_group(&self, ranks: &[usize]) -> Result<ProcessGroup, DistError> {
        let (ccl, sips) = self.with(|backend| {
            let sips = members(ranks, &backend.groups[&backend.world.id].sips)?;
            Ok((backend.ccl.clone(), sips))
        })?;
        let (group, algorithms) = self.wire(&ccl, ranks, sips)?;
        if let Some(backend) = self.state.backend.borrow_mut().as_mut() {
            backend.groups.insert(group.id, algorithms);
        }
        Ok(group)
    }

    /// Removes a group, through the fabric. Removing the group of all ranks removes all others.
    pub fn destroy_group(&self, group: &ProcessGroup) -> Result<(), DistError> {
        if *group == self.world()? {
            return self.destroy_process_group();
        }
        let mut backend = self.state.backend.borrow_mut();
        let removed = backend.as_mut().and_then(|backend| backend.groups.remove(&group.id));
        removed.map(drop).ok_or_else(|| DistError::NoGroup(group.to_string()))
    }

    /// Returns the names of the algorithms for which a group is wired.
    pub fn algorithms(&self, group: &ProcessGroup) -> Result<Vec<&'static str>, DistError> {
        Ok(self.wired(group)?.names())
    }

    /// Performs an operation of a group's members, as [`run`](Self::run).
    pub fn run_in(
        &self,
        group: &ProcessGroup,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<CollectiveReport, DistError> {
        self.begin_in(group, operation, tensors)?.wait()
    }

    /// Begins an operation of a group's members, as [`begin`](Self::begin).
    pub fn begin_in(
        &self,
        group: &ProcessGroup,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        self.check_outside(&operation)?;
        self.wired(group)?.begin(&self.state.launcher, operation, tensors)
    }

    /// Returns the orders in which a reduction of a group's members combines the elements of its outputs, for inputs
    /// like this one. Ranges count the output's elements in row-major order. An `all_reduce` or `reduce` has one
    /// output, a `reduce_scatter` one for each rank.
    ///
    /// Returns `None` if the algorithm that is chosen for this size does not state its order, or if the input is not
    /// dealt to PEs by rows.
    pub fn orders_in(
        &self,
        group: &ProcessGroup,
        operation: Operation,
        input: &Tensor,
    ) -> Result<Option<Vec<Orders>>, DistError> {
        self.wired(group)?.orders(self.state.launcher.context(), operation, input)
    }

    /// Begins a barrier, which ends when every member's device has received a message from every other.
    pub fn begin_barrier(&self, group: &ProcessGroup) -> Result<Pending, DistError> {
        self.check_outside(&"barrier")?;
        self.wired(group)?.barrier(&self.state.launcher)
    }

    /// Makes a group of some ranks of the world and wires their SIPs.
    pub(super) fn wire(
        &self,
        ccl: &CclConfig,
        members: &[usize],
        sips: Vec<SipId>,
    ) -> Result<(ProcessGroup, Rc<Algorithms>), DistError> {
        let id = self.state.made.get();
        self.state.made.set(id.checked_add(1).ok_or(DistError::Exhausted)?);
        let group = ProcessGroup { id, members: members.into() };
        let number = || self.state.launcher.new_group().ok_or(DistError::Exhausted);
        let algorithms = Algorithms::wire(self.state.launcher.context(), ccl, sips, number)?;
        Ok((group, Rc::new(algorithms)))
    }

    /// Returns the wired algorithms of a group; fails if it has been destroyed.
    pub(super) fn wired(&self, group: &ProcessGroup) -> Result<Rc<Algorithms>, DistError> {
        self.with(|backend| {
            let found = backend.groups.get(&group.id).cloned();
            found.ok_or_else(|| DistError::NoGroup(group.to_string()))
        })
    }
}

/// Returns the SIPs of some ranks, checked to exist and to be distinct.
fn members(ranks: &[usize], sips: &[SipId]) -> Result<Vec<SipId>, DistError> {
    if ranks.is_empty() {
        return Err(DistError::NoRanks);
    }
    let world = sips.len();
    for (place, &rank) in ranks.iter().enumerate() {
        if rank >= world {
            return Err(DistError::Rank { rank, world });
        }
        if ranks[..place].contains(&rank) {
            return Err(DistError::Repeated { kind: "rank", name: rank.to_string() });
        }
    }
    Ok(ranks.iter().map(|&rank| sips[rank]).collect())
}
