//! A tensor as a PE's DMA sees it.

use std::ops::Range;

use cubeyard_device::message::Direction;
use cubeyard_device::request::{PeRef, Request};
use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::Span;

use super::Tensor;
use crate::context::Storage;
use crate::error::RuntimeError;

/// What a PE's DMA has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmaRead {
    /// The bytes; none if the context holds no data.
    pub bytes: Option<Vec<u8>>,
    /// From the order to the last byte, translation included.
    pub latency: Span,
}

impl Tensor {
    /// Reads bytes of the tensor's addresses with a PE's DMA, as a kernel there would: through the PE's MMU,
    /// or where addresses are physical, from the copy that the PE uses. Takes simulated time.
    ///
    /// With virtual addresses, what the PE does not map is a page fault, and [strict] or not, an error unless
    /// the virtual address is a physical one, too: by default none is
    /// ([`ContextConfig::virtual_base`](crate::ContextConfig::virtual_base)).
    ///
    /// [strict]: cubeyard_device::topology::MmuSpec::strict
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

/// The requests that read a range of the storage.
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
