//! Exports: handles with which another process or another API can open the memory of a block.

use super::error::FreeError;
use super::handle::{Allocation, Pin};
use super::slots::Slot;
use super::tag::Tag;
use super::token::AllocationToken;
use super::{FlexAllocator, VirtualAddress};
use crate::Bytes;
use crate::device::ExportHandle;
use crate::index::BlockKey;
use crate::sync::Arc;

/// An exported block. As long as it lives, the block stays allocated and in place, even if its owner frees it. Keep it
/// until everyone who opened the handle has closed it.
#[derive(Debug)]
pub struct Export {
    pin: Pin,
    handle: ExportHandle,
}

impl Export {
    /// Returns the device's handle, and the offset of the block in the memory that it names.
    pub fn handle(&self) -> &ExportHandle {
        &self.handle
    }

    /// Returns the address of the block.
    pub fn address(&self) -> VirtualAddress {
        self.pin.address()
    }

    /// Returns the length of the block.
    pub fn size(&self) -> Bytes {
        self.pin.size()
    }
}

/// A refused export. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The device cannot export memory, or not this part of it. Copy the contents instead.
    #[error("the device has no export handle for {size} at {address}")]
    Unsupported {
        /// Address of the block.
        address: VirtualAddress,
        /// Length of the block.
        size: Bytes,
    },
    /// The block is paused, so it has no memory. Resume it first.
    #[error("the block at {address} is paused")]
    Paused {
        /// Address of the block.
        address: VirtualAddress,
    },
    /// The token names no live block of this allocator.
    #[error(transparent)]
    Token(#[from] FreeError),
}

impl Allocation {
    /// Exports the block, if the device can ([`DeviceMemory::export`](crate::device::DeviceMemory::export)). The export
    /// pins the block.
    ///
    /// ```
    /// # use cubeyard_memory::{Bytes, FlexAllocator, device::{Card, CardSpec}};
    /// # use std::sync::Arc;
    /// # let allocator = FlexAllocator::new(Arc::new(Card::new(CardSpec::physical(Bytes::gib(64)))));
    /// # let _first = allocator.allocate(Bytes::mib(1)).unwrap();
    /// let block = allocator.allocate(Bytes::mib(2)).unwrap();
    /// let export = block.export().unwrap();
    /// assert_eq!(export.handle().offset, Bytes::mib(1));
    /// drop(block);
    /// assert_eq!(allocator.stats().allocated(), Bytes::mib(3), "the export keeps the block");
    /// ```
    pub fn export(&self) -> Result<Export, ExportError> {
        self.follow(|slot, key| export(slot, key, |_| true))
    }
}

impl FlexAllocator {
    /// Exports the block of a token, as [`Allocation::export`] does.
    pub fn export_token(&self, token: AllocationToken) -> Result<Export, ExportError> {
        self.follow(token, |slot, key| export(slot, key, Tag::is_leaked))?
    }
}

/// Pins a block, and then asks the device with no lock held.
fn export(
    slot: &Arc<Slot>,
    key: BlockKey,
    usable: fn(Tag) -> bool,
) -> Result<Result<Export, ExportError>, FreeError> {
    let pin = Pin::new(slot, key, usable)?;
    let (address, size) = (pin.address(), pin.size());
    if pin.was_paused() {
        return Ok(Err(ExportError::Paused { address }));
    }
    let region = slot.with(|state| state.region().handle.duplicate());
    let handle = slot.shared.device.export(&region, address.offset, size);
    let unsupported = ExportError::Unsupported { address, size };
    Ok(handle.map(|handle| Export { pin, handle }).ok_or(unsupported))
}
