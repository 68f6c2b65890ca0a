//! Transfers between the host and blocks of regions.

use std::ops::Range;

use cubeyard_device::message::Buffer;
use cubeyard_device::request::{MemoryRange, PeRef, Request};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{PhysAddr, SipId};
use cubeyard_memory::flex::{Allocation, VirtualAddress};

use super::FlexDevice;
use crate::context::Inner;
use crate::error::RuntimeError;
use crate::tensor::Values;

impl FlexDevice {
    /// Writes bytes into a block, over the fabric.
    pub fn write(
        &self,
        block: &Allocation,
        offset: Bytes,
        bytes: &[u8],
    ) -> Result<(), RuntimeError> {
        self.write_at(place(block, offset, Bytes::new(bytes.len() as u64))?, bytes)
    }

    /// Reads bytes of a block, over the fabric. This takes simulated time even without data; then the values are
    /// absent.
    pub fn read(
        &self,
        block: &Allocation,
        offset: Bytes,
        bytes: usize,
    ) -> Result<Values<u8>, RuntimeError> {
        self.read_address(place(block, offset, Bytes::new(bytes as u64))?, bytes)
    }

    /// Reads bytes from an address in a region, such as the corrections of a launch.
    pub fn read_address(
        &self,
        address: VirtualAddress,
        bytes: usize,
    ) -> Result<Values<u8>, RuntimeError> {
        self.context.check_open()?;
        let pieces = self.context.pieces(self.sip, address, bytes as u64)?.into_iter();
        let requests = pieces.map(|(shard, _)| Request::MemoryRead(shard)).collect();
        let (pieces, _) = self.context.fetch(requests)?;
        Ok(if self.context.data { Values::Known(pieces.concat()) } else { Values::Absent })
    }

    pub(super) fn write_at(
        &self,
        address: VirtualAddress,
        bytes: &[u8],
    ) -> Result<(), RuntimeError> {
        self.context.check_open()?;
        let pieces = self.context.pieces(self.sip, address, bytes.len() as u64)?.into_iter();
        let request = |(shard, range): (MemoryRange, Range<u64>)| {
            let place = |at: u64| usize::try_from(at).expect("within the bytes");
            let own = place(range.start)..place(range.end);
            let buffer = self.context.data.then(|| Buffer::new(bytes[own].to_vec().into()));
            (Request::MemoryWrite(shard), buffer)
        };
        self.context.perform(pieces.map(request))?;
        Ok(())
    }
}

impl Inner {
    /// Resolves a range of a region into pieces, each within the memory of one PE, with its range of the bytes.
    pub(super) fn pieces(
        &self,
        sip: SipId,
        address: VirtualAddress,
        bytes: u64,
    ) -> Result<Vec<(MemoryRange, Range<u64>)>, RuntimeError> {
        let machine = self.machine.borrow();
        let slice = machine.topology().spec().hbm.slice;
        let start = machine.view().region_address(sip, address.region_id, address.offset)?;
        let mut at = 0;
        let mut pieces = Vec::new();
        while at < bytes {
            let place = PhysAddr::from_bits(start.to_bits() + at).expect("within a region");
            let offset = place.hbm_offset().expect("regions are in HBM");
            let length = (slice.get() - offset.get() % slice.get()).min(bytes - at);
            let pe = place.hbm_pe(slice).expect("regions are in slices");
            let cube = place.cube().expect("regions are in cubes");
            let shard = MemoryRange { at: PeRef { sip, cube, pe }, address: place, bytes: length };
            pieces.push((shard, at..at + length));
            at += length;
        }
        Ok(pieces)
    }
}

/// Returns the address at an offset of a block, if the `bytes` bytes from there lie in the block.
pub(super) fn place(
    block: &Allocation,
    offset: Bytes,
    bytes: Bytes,
) -> Result<VirtualAddress, RuntimeError> {
    let size = block.requested();
    if bytes.is_zero() || offset.checked_add(bytes).is_none_or(|end| end > size) {
        return Err(RuntimeError::Beyond { offset, bytes, size });
    }
    let address = block.address();
    Ok(VirtualAddress { offset: address.offset + offset, ..address })
}
