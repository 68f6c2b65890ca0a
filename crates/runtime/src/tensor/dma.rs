//! Reads of a tensor by a PE's DMA.

use std::ops::Range;

use cubeyard_device::message::Direction;
use cubeyard_device::request::{PeRef, Request};
use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::Span;

use super::Tensor;
use crate::context::Storage;
use crate::error::RuntimeError;

/// Result of a read by a PE's DMA.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DmaRead {
    /// Bytes read; `None` if the context holds no data.
    pub bytes: Option<Vec<u8>>,
    /// Time from the command to the last byte, including translation.
    pub latency: Span,
}

impl Tensor {
    /// Reads a range of the tensor's bytes with a PE's DMA, as a kernel there would: through the PE's MMU, or with
    /// physical addresses, from the copy that the PE uses. Takes simulated time.
    ///
    /// A virtual address that the PE does not map is a page fault. It is an error unless the address is also a physical
    /// one; by default none is ([`ContextConfig::virtual_base`](crate::ContextConfig::virtual_base)).
    pub fn read_from(&self, pe: PeRef, range: Range<u64>) -> Result<DmaRead, RuntimeError> {
        let storage = self.deployed()?;
        let nbytes = self.nbytes().get();
        if range.start >= range.end || range.end > nbytes {
            let Range { start, end } = range;
            return Err(RuntimeError::Range { start, end, nbytes });
        }
        let from = self.offset_bytes + range.start..self.offset_bytes + range.end;
        let requests = requests(storage, pe, from);
        requests.iter().try_for_each(|_| self.context.step())?;
        let (pieces, latency) = self.context.fetch(requests)?;
        Ok(DmaRead { bytes: self.context.data.then(|| pieces.concat()), latency })
    }
}

/// Returns the requests that read a range of the storage.
fn requests(storage: &Storage, from: PeRef, range: Range<u64>) -> Vec<Request> {
    let direction = Direction::Read;
    if let Some(base) = storage.va_base {
        let (address, bytes) = (base.to_bits() + range.start, range.end - range.start);
        return vec![Request::VirtualDma { from, direction, address, bytes }];
    }
    let mut requests = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let part = storage.layout.holder_for(from, at).expect("within the tensor");
        let bytes = part.bytes().end.min(range.end) - at;
        let shards = &storage.shards;
        let shard = shards.iter().find(|shard| shard.at == part.at).expect("it was deployed");
        let into = at - shard.offset_bytes.get();
        let address = PhysAddr::from_bits(shard.address.to_bits() + into).expect("within a shard");
        requests.push(Request::PeDma { from, direction, address, bytes });
        at += bytes;
    }
    requests
}
