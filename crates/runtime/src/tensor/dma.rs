//! A tensor as a PE's DMA sees it.

use std::ops::Range;
use std::rc::Rc;

use cubeyard_device::message::{Buffer, Direction};
use cubeyard_device::request::{PeRef, Request};
use cubeyard_sim::Span;

use super::Tensor;
use crate::error::RuntimeError;
use crate::storage::Storage;

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
    /// the virtual address happens to be a physical one too.
    ///
    /// [strict]: cubeyard_device::topology::MmuSpec::strict
    pub fn read_from(&self, pe: PeRef, range: Range<u64>) -> Result<DmaRead, RuntimeError> {
        let storage = self.deployed()?;
        if range.start >= range.end || range.end > self.nbytes() {
            let Range { start, end } = range;
            return Err(RuntimeError::Range { start, end, nbytes: self.nbytes() });
        }
        let from = self.offset_bytes + range.start..self.offset_bytes + range.end;
        let mut requests = Vec::new();
        let mut buffers = Vec::new();
        for (request, bytes) in self.dma(storage, pe, from)? {
            self.context.step()?;
            let buffer = self.context.data.then(|| zeros(bytes));
            buffers.extend(buffer.clone());
            requests.push((request, buffer));
        }
        let latency = self.context.perform(requests)?.span;
        let all = || buffers.iter().flat_map(|buffer| buffer.borrow().clone()).collect();
        Ok(DmaRead { bytes: self.context.data.then(all), latency })
    }

    /// The requests that read a range of the storage, and how much each reads.
    fn dma(
        &self,
        storage: &Storage,
        from: PeRef,
        range: Range<u64>,
    ) -> Result<Vec<(Request, u64)>, RuntimeError> {
        let direction = Direction::Read;
        if let Some(base) = storage.va_base {
            let (address, bytes) = (base + range.start, range.end - range.start);
            return Ok(vec![(Request::VirtualDma { from, direction, address, bytes }, bytes)]);
        }
        let mut requests = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let part = storage.layout.holder_for(from, at).expect("within the tensor");
            let bytes = part.bytes().end.min(range.end) - at;
            let shards = &storage.shards;
            let shard = shards.iter().find(|shard| shard.at == part.at).expect("it was deployed");
            let machine = self.context.machine.borrow();
            let slice = machine.hbm_address(shard.at, 0)?.to_bits();
            let offset = shard.address.to_bits() - slice + at - shard.offset_bytes;
            let address = machine.hbm_address(shard.at, offset)?;
            requests.push((Request::PeDma { from, direction, address, bytes }, bytes));
            at += bytes;
        }
        Ok(requests)
    }
}

fn zeros(bytes: u64) -> Buffer {
    Rc::new(vec![0; usize::try_from(bytes).expect("it fits memory")].into())
}
