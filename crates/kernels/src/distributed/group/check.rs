//! Whether the tensors of ranks go together.

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::Tensor;

use crate::collective::{Operation, World};
use crate::distributed::error::DistError;

/// Whether the rank that has or gets all is there.
pub(in crate::distributed) fn check_root(
    operation: Operation,
    world: &World,
) -> Result<(), DistError> {
    match operation.root().filter(|&root| root >= world.ranks) {
        Some(rank) => Err(DistError::Rank { rank, world: world.ranks }),
        None => Ok(()),
    }
}

/// The cubes and PEs that hold a tensor: each of these cubes has parts on each of these PEs.
pub(in crate::distributed) fn rectangle(
    tensor: &Tensor,
) -> Result<(Vec<CubeId>, Vec<PeId>), DistError> {
    let shards = tensor.shards()?;
    let mut cubes: Vec<_> = shards.iter().map(|shard| shard.at.cube).collect();
    let mut pes: Vec<_> = shards.iter().map(|shard| shard.at.pe).collect();
    cubes.sort_unstable();
    cubes.dedup();
    pes.sort_unstable();
    pes.dedup();
    Ok((cubes, pes))
}

pub(in crate::distributed) fn check_alike(
    operation: &'static str,
    rank: usize,
    tensor: &Tensor,
    first: &Tensor,
) -> Result<(), DistError> {
    let text = |tensor: &Tensor| format!("{}[{}]", tensor.dtype(), tensor.shape());
    if (tensor.dtype(), tensor.shape()) == (first.dtype(), first.shape()) {
        return Ok(());
    }
    Err(DistError::Mismatch { operation, rank, found: text(tensor), expected: text(first) })
}

pub(in crate::distributed) fn check_place(
    operation: &'static str,
    rank: usize,
    tensor: &Tensor,
    sip: SipId,
) -> Result<(), DistError> {
    let place = |what: String| DistError::Place { operation, rank, what };
    if !tensor.is_deployed() {
        return Err(place("not deployed".to_owned()));
    }
    match tensor.shards()?.iter().find(|shard| shard.at.sip != sip) {
        Some(shard) => Err(place(format!("on {}, expected {sip}", shard.at.sip))),
        None => Ok(()),
    }
}

/// Whether a tensor is on just the cubes that are ranks, or have them.
pub(in crate::distributed) fn check_cubes(
    operation: &'static str,
    rank: usize,
    tensor: &Tensor,
    expected: &[CubeId],
) -> Result<(), DistError> {
    let (found, _) = rectangle(tensor)?;
    if found == expected {
        return Ok(());
    }
    let names = |cubes: &[CubeId]| {
        let names: Vec<_> = cubes.iter().map(ToString::to_string).collect();
        names.join(", ")
    };
    let what = format!("on {}, expected {}", names(&found), names(expected));
    Err(DistError::Place { operation, rank, what })
}
