//! Blocks: allocation, lookup, pins and frees.

use cubeyard_memory::device::RegionId;
use cubeyard_memory::flex::{AllocationToken, TokenBlock};
use cubeyard_memory::policy::{Kind, Request};
use cubeyard_memory::{Bytes, VirtualAddress};

use crate::Front;
use crate::argument;
use crate::call::call;
use crate::status::{Failure, Status};

/// The struct `cubeyard_block` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CBlock {
    slot: u64,
    key: u64,
}

/// The struct `cubeyard_address` of the header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CAddress {
    region_id: u64,
    offset: u64,
}

impl CAddress {
    pub(crate) fn place(self) -> VirtualAddress {
        let (region_id, offset) = (RegionId::new(self.region_id), Bytes::new(self.offset));
        VirtualAddress { region_id, offset }
    }
}

/// The struct `cubeyard_request` of the header.
#[repr(C)]
pub(crate) struct CRequest {
    size: u64,
    alignment: u64,
    kind: u32,
    stream: u32,
    site: u32,
    reserved: u32,
}

/// The struct `cubeyard_block_info` of the header.
#[repr(C)]
pub(crate) struct CBlockInfo {
    address: CAddress,
    flat: u64,
    size: u64,
    requested: u64,
    segment: u32,
    kind: u32,
}

impl CBlock {
    pub(crate) fn token(self) -> AllocationToken {
        AllocationToken::from_parts(self.slot, self.key)
    }
}

impl From<AllocationToken> for CBlock {
    fn from(token: AllocationToken) -> Self {
        let (slot, key) = token.to_parts();
        Self { slot, key }
    }
}

impl From<VirtualAddress> for CAddress {
    fn from(address: VirtualAddress) -> Self {
        Self { region_id: address.region_id.get(), offset: address.offset.get() }
    }
}

impl CRequest {
    pub(crate) fn request(&self) -> Result<Request, Failure> {
        let kind = usize::try_from(self.kind).ok().and_then(|kind| Kind::ALL.get(kind));
        if self.reserved != 0 {
            return Err(argument::wrong("request.reserved", "is not 0"));
        }
        Ok(Request {
            size: Bytes::new(self.size),
            alignment: Bytes::new(self.alignment.max(1)),
            kind: *kind.ok_or_else(|| argument::wrong("request.kind", "is not a kind of block"))?,
            stream: self.stream,
            site: self.site,
            ..Request::new(Bytes::ZERO)
        })
    }
}

impl Front {
    /// Allocates a block, and writes its token and its address.
    ///
    /// # Safety
    /// Pointers that are neither null nor unaligned point to writable memory.
    pub(crate) unsafe fn allocate(
        &self,
        request: &Request,
        block: *mut CBlock,
        address: *mut CAddress,
    ) -> Result<(), Failure> {
        argument::place(block, "block")?;
        argument::place_if(address, "address")?;
        let allocation = self.allocator.allocate_for(request)?;
        let place = allocation.address();
        // SAFETY: the caller guarantees the same.
        unsafe {
            argument::write_if(address, "address", place.into())?;
            argument::write(block, "block", allocation.into_token().into())
        }
    }

    pub(crate) fn describe(&self, block: TokenBlock) -> Result<CBlockInfo, Failure> {
        let TokenBlock { address, size, requested, kind } = block;
        let segment = self.allocator.segment_table().get(address.region_id);
        // The region may have been released since the block was found, if the block was freed in the meantime.
        let stale = || Failure::new(Status::Stale, "the block was freed before");
        let (place, segment) = segment.ok_or_else(stale)?;
        Ok(CBlockInfo {
            address: address.into(),
            flat: segment.base + address.offset.get(),
            size: size.get(),
            requested: requested.get(),
            segment: u32::try_from(place.0).unwrap_or(u32::MAX),
            kind: kind as u32,
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_allocate(
    allocator: *const Front,
    request: *const CRequest,
    block: *mut CBlock,
    address: *mut CAddress,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator and a request.
        let (front, request) =
            unsafe { (Front::of(allocator)?, argument::read(request, "request")?) };
        // SAFETY: the header requires writable pointers.
        unsafe { front.allocate(&request.request()?, block, address) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_free(allocator: *const Front, block: CBlock) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        Ok(front.allocator.free_token(block.token())?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_free_address(allocator: *const Front, address: CAddress) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        Ok(front.allocator.deallocate(address.place())?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_leak(
    allocator: *const Front,
    block: CBlock,
    address: *mut CAddress,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(address, "address")?;
        let place = front.allocator.adopt(block.token())?.leak();
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(address, "address", place.into()) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_resolve(
    allocator: *const Front,
    block: CBlock,
    info: *mut CBlockInfo,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        let found = front.describe(front.allocator.block_of(block.token())?)?;
        // SAFETY: the header requires a writable pointer.
        unsafe { argument::write(info, "info", found) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_pin(
    allocator: *const Front,
    block: CBlock,
    pin: *mut u64,
    info: *mut CBlockInfo,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        argument::place(pin, "pin")?;
        argument::place_if(info, "info")?;
        let pinned = front.allocator.pin_token(block.token())?;
        let found = front.describe(front.allocator.block_of(block.token())?)?;
        let number = front.pins.insert(pinned);
        // SAFETY: the header requires writable pointers.
        unsafe {
            argument::write_if(info, "info", found)?;
            argument::write(pin, "pin", number)
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_unpin(allocator: *const Front, pin: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        front.pins.remove(pin).map(drop)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_resize(allocator: *const Front, block: CBlock, size: u64) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        Ok(front.allocator.resize_token(block.token(), Bytes::new(size))?)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cubeyard_record_stream(
    allocator: *const Front,
    block: CBlock,
    stream: u32,
) -> Status {
    call(|| {
        // SAFETY: the header requires an allocator.
        let front = unsafe { Front::of(allocator) }?;
        Ok(front.allocator.record_stream_token(block.token(), stream)?)
    })
}
