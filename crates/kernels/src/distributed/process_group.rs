//! Groups of some of the ranks: `torch.distributed.new_group`.
//!
//! Members are ranks of a group by their order in it. Groups are independent: each has its own channels and
//! meets on its own, so several can be at work at once, also with members in common.

use std::fmt;
use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::Tensor;

use super::team::Team;
use super::{CclConfig, CollectiveReport, DistError, Distributed, Pending};
use crate::collective::Operation;

/// Some ranks of the world, as a group. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessGroup {
    id: u32,
    members: Rc<[usize]>,
}

impl ProcessGroup {
    /// How many ranks it has.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Its members, as ranks of the world; each has its place here as its rank in the group.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The rank in the group of a rank of the world, if that is a member.
    pub fn rank_of(&self, rank: usize) -> Option<usize> {
        self.members.iter().position(|&member| member == rank)
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }
}

/// The ranks of its members.
impl fmt::Display for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.members))
    }
}

pub(super) fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Distributed<'_> {
    /// The group of all ranks.
    pub fn world(&self) -> Result<ProcessGroup, DistError> {
        self.with(|backend| Ok(backend.world.clone()))
    }

    /// Makes a group of some ranks of the world, in this order, and wires it: all of it or nothing.
    ///
    /// Where the SIPs of its members are a rectangle of the SIPs' grid, row by row, they are a grid; else a ring.
    pub fn new_group(&self, ranks: &[usize]) -> Result<ProcessGroup, DistError> {
        let (ccl, sips) = self.with(|backend| {
            let sips = members(ranks, &backend.teams[&backend.world.id].sips)?;
            Ok((backend.ccl.clone(), sips))
        })?;
        let (group, team) = self.wire(&ccl, ranks, sips)?;
        if let Some(backend) = self.backend.borrow_mut().as_mut() {
            backend.teams.insert(group.id, team);
        }
        Ok(group)
    }

    /// Takes a group out again, through the fabric. With the group of all ranks, all others go.
    pub fn destroy_group(&self, group: &ProcessGroup) -> Result<(), DistError> {
        if *group == self.world()? {
            return self.destroy_process_group();
        }
        let mut backend = self.backend.borrow_mut();
        let teams = backend.as_mut().map(|backend| &mut backend.teams);
        let team = teams.and_then(|teams| teams.remove(&group.id));
        team.map(drop).ok_or_else(|| DistError::NoGroup(group.to_string()))
    }

    /// The algorithms that a group is wired for, by name.
    pub fn algorithms(&self, group: &ProcessGroup) -> Result<Vec<&'static str>, DistError> {
        Ok(self.team(group)?.algorithms())
    }

    /// Does an operation of a group's members, as [`run`](Self::run).
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
        self.start(group, operation, tensors)
    }

    /// As [`begin_in`](Self::begin_in), for workers that have met.
    pub(super) fn start(
        &self,
        group: &ProcessGroup,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<Pending, DistError> {
        self.team(group)?.begin(&self.launcher, self.context, operation, tensors)
    }

    /// Begins what ends when every member's device has heard of every other.
    pub fn begin_barrier(&self, group: &ProcessGroup) -> Result<Pending, DistError> {
        self.check_outside(&"barrier")?;
        self.start_barrier(group)
    }

    /// As [`begin_barrier`](Self::begin_barrier), for workers that have met.
    pub(super) fn start_barrier(&self, group: &ProcessGroup) -> Result<Pending, DistError> {
        self.team(group)?.barrier(&self.launcher, self.context)
    }

    /// A group of some SIPs, which are these ranks of the world, and what it is wired by.
    pub(super) fn wire(
        &self,
        ccl: &CclConfig,
        members: &[usize],
        sips: Vec<SipId>,
    ) -> Result<(ProcessGroup, Rc<Team>), DistError> {
        let id = self.made.get();
        self.made.set(id.checked_add(1).ok_or(DistError::Exhausted)?);
        let group = ProcessGroup { id, members: members.into() };
        let number = || self.launcher.new_group().ok_or(DistError::Exhausted);
        let team = Team::install(self.context, ccl, sips, number)?;
        Ok((group, Rc::new(team)))
    }

    pub(super) fn team(&self, group: &ProcessGroup) -> Result<Rc<Team>, DistError> {
        self.with(|backend| {
            let team = backend.teams.get(&group.id).cloned();
            team.ok_or_else(|| DistError::NoGroup(group.to_string()))
        })
    }
}

/// The SIPs of some ranks, each of which is there, and named once.
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
