//! Checks of every call of every rank, before anything moves.
//!
//! A [`Seat`] is made only here, and nothing is launched without a seat for each rank concerned. So a call that does
//! not match the calls of other ranks is an error on the host. No kernel waits for a message that is never sent, or
//! writes beyond its output.

mod held;

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::{Context, Launch, Tensor};

use crate::collective::{Operation, World};
use crate::distributed::config::Ranks;
use crate::distributed::error::{DistError, listed};
use crate::distributed::rank_map::RankMap;
use held::Held;

/// An admitted rank: its SIP, its tensors, and the PEs that hold a part of a tensor.
#[derive(Debug)]
pub(in crate::distributed) struct Seat<'t> {
    sip: SipId,
    /// Input and output, or the tensor that is sent or received.
    tensors: Vec<&'t Tensor>,
    cubes: Vec<CubeId>,
    pes: Vec<PeId>,
}

impl<'t> Seat<'t> {
    /// Returns the launch of a kernel there, with the tensors and some numbers as arguments.
    pub(in crate::distributed) fn launch(self, numbers: [u64; 3]) -> Launch<'t> {
        let Self { sip, tensors, cubes, pes } = self;
        Launch::new(sip).arguments(tensors).arguments(numbers).cubes(cubes).pes(pes)
    }
}

/// The checks of one call.
pub(in crate::distributed) struct Door<'a> {
    context: &'a Context,
    map: &'a RankMap,
    /// Name of the call in errors.
    name: &'static str,
}

/// Checks that the root is a rank of the world.
pub(in crate::distributed) fn check_root(
    operation: Operation,
    world: &World,
) -> Result<(), DistError> {
    match operation.root().filter(|&root| root >= world.ranks) {
        Some(rank) => Err(DistError::Rank { rank, world: world.ranks }),
        None => Ok(()),
    }
}

/// Admits a collective, given an input and an output for each SIP.
pub(in crate::distributed) fn collective<'t>(
    context: &Context,
    map: &RankMap,
    operation: Operation,
    tensors: &[(&'t Tensor, &'t Tensor)],
) -> Result<Vec<Seat<'t>>, DistError> {
    check_root(operation, map.world())?;
    let door = Door { context, map, name: operation.name() };
    let (found, expected) = (tensors.len(), map.sips.len());
    if found != expected {
        return Err(DistError::Tensors { operation: door.name, found, expected });
    }
    let first = tensors[0].0;
    for (rank, &(input, output)) in tensors.iter().enumerate() {
        door.check_alike(rank, input, first)?;
        door.check_own(rank, input)?;
        door.check_own(rank, output)?;
        door.check_output(rank, operation, input, output)?;
    }
    check_op(operation, first)?;
    let held = |tensor: &&'t Tensor| Held::of(tensor, map);
    let inputs = tensors.iter().map(|(input, _)| held(input)).collect::<Result<Vec<_>, _>>()?;
    let outputs = tensors.iter().map(|(_, output)| held(output)).collect::<Result<Vec<_>, _>>()?;
    for rank in 0..map.world().ranks {
        door.check_layout(rank, &inputs)?;
        door.check_lengths(rank, operation, &inputs, &outputs)?;
    }
    let seat = |(rank, &(input, output))| door.seat(rank, vec![input, output]);
    tensors.iter().enumerate().map(seat).collect()
}

/// Admits a transfer between two ranks; returns the seats of the sender and the receiver.
pub(in crate::distributed) fn transfer<'t>(
    context: &Context,
    map: &RankMap,
    (from, source): (usize, &'t Tensor),
    (to, target): (usize, &'t Tensor),
) -> Result<[Seat<'t>; 2], DistError> {
    check_peer("send", from, to, map.world().ranks)?;
    check_peer("recv", to, from, map.world().ranks)?;
    let sends = Door { context, map, name: "send" };
    let receives = Door { context, map, name: "recv" };
    sends.check_own(from, source)?;
    receives.check_own(to, target)?;
    receives.check_alike(to, target, source)?;
    let sent = Held::of(source, map)?;
    let taken = Held::of(target, map)?;
    receives.check_same((to, &taken), (from, &sent))?;
    Ok([sends.seat(from, vec![source])?, receives.seat(to, vec![target])?])
}

/// Checks that a peer is a rank, and not the caller.
pub(in crate::distributed) fn check_peer(
    call: &'static str,
    rank: usize,
    peer: usize,
    ranks: usize,
) -> Result<(), DistError> {
    if peer >= ranks {
        return Err(DistError::Peer { call, peer, ranks });
    }
    if peer == rank { Err(DistError::Itself { call, rank }) } else { Ok(()) }
}

/// Checks that the reduction operator is defined for the tensor's type.
fn check_op(operation: Operation, tensor: &Tensor) -> Result<(), DistError> {
    let dtype = tensor.dtype();
    match operation.op().filter(|op| !op.suits(dtype)) {
        Some(op) => Err(DistError::NoneOf { operation: operation.name(), op: op.name(), dtype }),
        None => Ok(()),
    }
}

impl Door<'_> {
    fn place(&self, rank: usize, what: impl Into<String>) -> DistError {
        DistError::Place { operation: self.name, rank, what: what.into() }
    }

    /// Checks that two tensors have the same type and shape.
    fn check_alike(&self, rank: usize, tensor: &Tensor, other: &Tensor) -> Result<(), DistError> {
        if (tensor.dtype(), tensor.shape()) == (other.dtype(), other.shape()) {
            return Ok(());
        }
        let text = |tensor: &Tensor| format!("{}[{}]", tensor.dtype(), tensor.shape());
        let (found, expected) = (text(tensor), text(other));
        Err(DistError::Mismatch { operation: self.name, rank, found, expected })
    }

    /// Checks that a tensor is a rank's own: whole, of this context, on its SIP, and on the cubes of the group.
    fn check_own(&self, rank: usize, tensor: &Tensor) -> Result<(), DistError> {
        if !tensor.is_deployed() {
            return Err(self.place(rank, "not deployed"));
        }
        if !self.context.owns(tensor) {
            return Err(self.place(rank, "of another context"));
        }
        let layout = tensor.layout()?;
        if layout.nbytes() != tensor.nbytes().get() {
            return Err(self.place(rank, "a view of a part, expected a tensor of its own"));
        }
        let sip = self.map.sips[rank];
        if let Some(shard) = layout.shards().iter().find(|shard| shard.at.sip != sip) {
            return Err(self.place(rank, format!("on {}, expected {sip}", shard.at.sip)));
        }
        self.check_cubes(rank, tensor)
    }

    /// Checks that a tensor is on exactly the cubes of the group; a rank that is a SIP may use fewer.
    fn check_cubes(&self, rank: usize, tensor: &Tensor) -> Result<(), DistError> {
        let ((found, _), expected) = (rectangle(tensor)?, &self.map.cubes);
        let is_less = self.map.ranks() == Ranks::Sip || found.is_empty();
        let is_within = found.iter().all(|cube| expected.contains(cube));
        if found == *expected || is_less && is_within {
            return Ok(());
        }
        let (found, expected) = (listed(&found), listed(expected));
        Err(self.place(rank, format!("on {found}, expected {expected}")))
    }

    /// Checks that an output has its input's type, and is a different tensor if it must be.
    fn check_output(
        &self,
        rank: usize,
        operation: Operation,
        input: &Tensor,
        output: &Tensor,
    ) -> Result<(), DistError> {
        let (found, expected) = (output.dtype(), input.dtype());
        if found != expected {
            return Err(DistError::OutputType { operation: self.name, rank, found, expected });
        }
        let is_moved = operation == Operation::AllToAll && self.map.world().ranks > 1;
        if is_moved && shares(input, output)? {
            return Err(self.place(rank, "its input and its output, expected two tensors"));
        }
        Ok(())
    }

    /// Checks that a rank holds on each of its PEs the same part as the first rank.
    fn check_layout(&self, rank: usize, inputs: &[Held<'_>]) -> Result<(), DistError> {
        let of = |rank: usize| (rank, &inputs[self.map.sip_of(rank)]);
        self.check_same(of(rank), of(0))
    }

    fn check_same(
        &self,
        (rank, held): (usize, &Held<'_>),
        (other, like): (usize, &Held<'_>),
    ) -> Result<(), DistError> {
        let pes = self.map.members(rank).into_iter().zip(self.map.members(other));
        for (pe, as_pe) in pes {
            let (found, expected) = (held.region(pe), like.region(as_pe));
            if found != expected {
                return Err(DistError::Layout {
                    operation: self.name,
                    rank,
                    pe,
                    found: found.to_string(),
                    expected: expected.to_string(),
                    other,
                    as_pe,
                });
            }
        }
        Ok(())
    }

    /// Checks that a rank's output has the required length on each of its PEs, and the layout of the input if
    /// it has the same length.
    fn check_lengths(
        &self,
        rank: usize,
        operation: Operation,
        inputs: &[Held<'_>],
        outputs: &[Held<'_>],
    ) -> Result<(), DistError> {
        let (sip, ranks) = (self.map.sip_of(rank), self.map.world().ranks);
        for pe in self.map.members(rank) {
            let (input, output) = (inputs[sip].region(pe), outputs[sip].region(pe));
            let expected = operation.output(rank, ranks, input.elements());
            let (operation_name, found) = (self.name, output.elements());
            if found != expected {
                let (operation, input) = (operation_name, input.elements());
                return Err(DistError::Output {
                    operation,
                    rank,
                    pe,
                    found,
                    expected,
                    input,
                    ranks,
                });
            }
            if operation.keeps_layout() && input != output {
                let (found, expected) = (output.to_string(), input.to_string());
                return Err(DistError::Turned {
                    operation: operation_name,
                    rank,
                    pe,
                    found,
                    expected,
                });
            }
        }
        Ok(())
    }

    /// Makes a rank's seat, with all PEs of the group if none holds anything.
    fn seat<'t>(&self, rank: usize, tensors: Vec<&'t Tensor>) -> Result<Seat<'t>, DistError> {
        let sip = self.map.sips[rank];
        let (mut cubes, mut pes) = rectangle(tensors[0])?;
        if cubes.is_empty() {
            (cubes, pes) = (self.map.cubes.clone(), self.map.pes.clone());
        }
        Ok(Seat { sip, tensors, cubes, pes })
    }
}

/// Returns the cubes and PEs of the smallest rectangle that holds a tensor; some may hold nothing.
fn rectangle(tensor: &Tensor) -> Result<(Vec<CubeId>, Vec<PeId>), DistError> {
    let shards = tensor.shards()?;
    let mut cubes: Vec<_> = shards.iter().map(|shard| shard.at.cube).collect();
    let mut pes: Vec<_> = shards.iter().map(|shard| shard.at.pe).collect();
    cubes.sort_unstable();
    cubes.dedup();
    pes.sort_unstable();
    pes.dedup();
    Ok((cubes, pes))
}

/// Returns whether two tensors share memory.
fn shares(a: &Tensor, b: &Tensor) -> Result<bool, DistError> {
    let first = |tensor: &Tensor| tensor.shards().map(|shards| shards.first().map(|s| s.address));
    let (a, b) = (first(a)?, first(b)?);
    Ok(a.is_some() && a == b)
}
