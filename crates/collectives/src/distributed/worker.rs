//! Workers: the program of each rank, written as if it were alone.
//!
//! All workers run in one thread, in turn. A worker that calls a collective waits until every rank of its group
//! has called it. Then the collective runs on the machine, and the workers continue.

mod call;
mod meeting;
mod spawn;

pub use call::WorkHandle;
pub(super) use meeting::CallMatcher;
pub use spawn::Spawned;

use std::cell::Cell;
use std::panic::Location;
use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, Tensor};

use super::group::check_peer;
use super::{DistError, Distributed, ProcessGroup};
use crate::collective::{Operation, ReduceOp};
use call::{Answer, Call, Posted};
use cubeyard_tl::Place;

/// The worker of a rank, in the group of all ranks or another.
#[derive(Clone, Debug)]
pub struct Worker {
    dist: Distributed,
    group: ProcessGroup,
    /// Rank of the worker in the group.
    rank: usize,
    device: Rc<Cell<usize>>,
    /// Source line of the worker's calls, if a front gives it.
    at: Option<String>,
}

impl Worker {
    /// Makes the worker of a rank of the world.
    fn new(dist: &Distributed, world: ProcessGroup, rank: usize) -> Self {
        let device = Rc::new(Cell::new(rank));
        Self { dist: dist.clone(), group: world, rank, device, at: None }
    }

    /// Returns the worker's rank in the group.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the worker's rank in the world.
    pub fn global_rank(&self) -> usize {
        self.group.members()[self.rank]
    }

    /// Returns the number of ranks of the worker's group.
    pub fn world_size(&self) -> usize {
        self.group.size()
    }

    /// Returns the context of all ranks.
    pub fn context(&self) -> &Context {
        self.dist.state.launcher.context()
    }

    /// Makes a group of some ranks of the world. Members and other ranks may call this; the n-th group of every rank is
    /// the same group.
    pub fn new_group(&self, ranks: &[usize]) -> Result<ProcessGroup, DistError> {
        self.dist.same_group(self.global_rank(), ranks)
    }

    /// Returns this rank as a member of a group; fails if it is not a member.
    pub fn in_group(&self, group: &ProcessGroup) -> Result<Self, DistError> {
        self.dist.wired(group)?;
        let rank = self.global_rank();
        let place = group.rank_of(rank);
        let not = || DistError::NotMember { rank, members: group.to_string() };
        let rank = place.ok_or_else(not)?;
        Ok(Self { rank, group: group.clone(), ..self.clone() })
    }

    /// Returns the same worker with calls at this line, such as `train.py:12`, for fronts in other languages.
    #[must_use]
    pub fn called_at(&self, line: &str) -> Self {
        Self { at: Some(line.to_owned()), ..self.clone() }
    }

    /// Selects the SIP of [`placement`](Self::placement), as `torch.accelerator.set_device_index`. The default is the
    /// rank's own SIP.
    pub fn set_device(&self, device: usize) -> Result<(), DistError> {
        let world = self.dist.get_world_size()?;
        if device >= world {
            return Err(DistError::Rank { rank: device, world });
        }
        self.device.set(device);
        Ok(())
    }

    /// Returns a placement row by row over all PEs of the device.
    pub fn placement(&self) -> Placement {
        let world = self.dist.world().and_then(|world| self.dist.wired(&world));
        let sip = world.map(|world| world.sips[self.device.get()]);
        let sip = sip.unwrap_or_else(|_| SipId::new(0).expect("there is a first one"));
        let (cube, pe) = (Split::RowWise, Split::RowWise);
        Placement { cube, pe, sips: vec![sip], ..Placement::default() }
    }

    /// Replaces every rank's tensor by the combination of all tensors.
    #[track_caller]
    pub fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::AllReduce(op), tensor, tensor)
    }

    /// Replaces the root's tensor by the combination of all tensors.
    #[track_caller]
    pub fn reduce(&self, tensor: &Tensor, root: usize, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::Reduce(op, root), tensor, tensor)
    }

    /// Replaces every rank's tensor by the root's tensor.
    #[track_caller]
    pub fn broadcast(&self, tensor: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Broadcast(root), tensor, tensor)
    }

    /// Sets `output` to all ranks' inputs. In each PE, the inputs of the same PE of each rank follow one another.
    #[track_caller]
    pub fn all_gather(&self, output: &Tensor, input: &Tensor) -> WorkHandle {
        self.collective(Operation::AllGather, input, output)
    }

    /// Sets `output` to this rank's part of the combined inputs, in each PE.
    #[track_caller]
    pub fn reduce_scatter(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> WorkHandle {
        self.collective(Operation::ReduceScatter(op), input, output)
    }

    /// Sets `output` to this rank's part of every input, in each PE.
    #[track_caller]
    pub fn all_to_all(&self, output: &Tensor, input: &Tensor) -> WorkHandle {
        self.collective(Operation::AllToAll, input, output)
    }

    /// Sets the root's `output` to all inputs, in each PE.
    #[track_caller]
    pub fn gather(&self, output: &Tensor, input: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Gather(root), input, output)
    }

    /// Sets `output` to this rank's part of the root's input, in each PE.
    #[track_caller]
    pub fn scatter(&self, output: &Tensor, input: &Tensor, root: usize) -> WorkHandle {
        self.collective(Operation::Scatter(root), input, output)
    }

    /// Sends a tensor to a rank that receives it.
    #[track_caller]
    pub fn send(&self, tensor: &Tensor, to: usize) -> WorkHandle {
        self.with_peer("send", to, Call::Send(to, tensor.clone()))
    }

    /// Receives a tensor that a rank sends.
    #[track_caller]
    pub fn recv(&self, tensor: &Tensor, from: usize) -> WorkHandle {
        self.with_peer("recv", from, Call::Receive(from, tensor.clone()))
    }

    /// Waits for all ranks, also in simulated time.
    #[track_caller]
    pub fn barrier(&self) -> WorkHandle {
        self.post(Call::Barrier)
    }

    /// Posts a call that a peer must match; fails if the peer is invalid.
    #[track_caller]
    fn with_peer(&self, name: &'static str, peer: usize, call: Call) -> WorkHandle {
        if let Err(error) = check_peer(name, self.rank, peer, self.group.size()) {
            self.dist.state.matcher.refuse(error);
        }
        self.post(call)
    }

    #[track_caller]
    fn collective(&self, operation: Operation, input: &Tensor, output: &Tensor) -> WorkHandle {
        self.post(Call::Collective(operation, input.clone(), output.clone()))
    }

    #[track_caller]
    fn post(&self, call: Call) -> WorkHandle {
        let answer = Answer::default();
        let here = Location::caller();
        let at = self.at.clone().unwrap_or_else(|| Place::from(here).to_string());
        let posted = Posted { call, at, answer: Rc::clone(&answer) };
        self.dist.state.matcher.post(&self.group, self.rank, posted);
        WorkHandle { answer }
    }
}
