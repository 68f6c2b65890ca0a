//! The memories of a PE and of a cube, which allocate complete physical addresses (ADR-0048).
//!
//! Each address space has its own free list (D7): a [`PeMemory`] has one for the PE's HBM slice and one for its TCM, a
//! [`CubeSram`] has one for the SRAM of a cube. The spaces share nothing. A new space is entirely free.
//!
//! ```
//! use cubeyard_memory::address::{CubeId, PeId, SipId};
//! use cubeyard_memory::free_list::Checking;
//! use cubeyard_memory::pe::{AddressSpec, PeMemory};
//! use cubeyard_memory::Bytes;
//!
//! let spec = AddressSpec {
//!     hbm_bytes_per_cube: Bytes::gib(48),
//!     hbm_slices_per_cube: 8,
//!     tcm_bytes_per_pe: Bytes::mib(16),
//!     tcm_scheduler_reserved_bytes: Bytes::mib(1),
//!     sram_bytes_per_cube: Bytes::mib(32),
//! };
//! let (sip, cube, pe) = (SipId::new(0)?, CubeId::new(3)?, PeId::new(2)?);
//! let mut memory = PeMemory::new(sip, cube, pe, &spec.resolve()?, Checking::Trusted)?;
//!
//! let weights = memory.allocate_hbm(Bytes::gib(4))?;
//! assert_eq!(weights.to_string(), "sip0.cube3.hbm+0x300000000");
//! let tile = memory.allocate_tcm(Bytes::kib(64))?;
//! assert_eq!(tile.to_string(), "sip0.cube3.pe2.tcm+0x0");
//!
//! let error = memory.allocate_hbm(Bytes::gib(4)).unwrap_err();
//! assert!(error.to_string().starts_with("HBM of sip0.cube3.pe2: wanted 4294967296 B (4.00 GiB)"));
//!
//! memory.free_hbm(weights, Bytes::gib(4))?;
//! memory.free_tcm(tile, Bytes::kib(64))?;
//! assert_eq!(memory.hbm().largest(), Bytes::gib(6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod spec;

pub use spec::{AddressLayout, AddressSpec, SpecError};

use crate::Bytes;
use crate::address::{AddressError, CubeId, PeId, PhysAddr, SipId, Window};
pub use crate::free_list::{AllocateError, FreeError, Space};
use crate::free_list::{Checking, FreeList};

/// Returns the address of an offset in a free list. It is valid, since the list is as long as the resolved layout.
fn complete(address: Result<PhysAddr, AddressError>) -> PhysAddr {
    address.expect("a layout is checked against the windows when it is resolved")
}

/// The memory of one PE: its HBM slice, and its TCM without the scheduler's part (D3).
///
/// The scheduler's part is the upper end of the TCM, which this type does not manage.
#[derive(Clone, Debug)]
pub struct PeMemory {
    sip: SipId,
    cube: CubeId,
    pe: PeId,
    slice: Bytes,
    hbm: FreeList,
    tcm: FreeList,
}

impl PeMemory {
    /// Creates the memory of a PE, all free. Fails for a PE that has no HBM slice.
    pub fn new(
        sip: SipId,
        cube: CubeId,
        pe: PeId,
        layout: &AddressLayout,
        checking: Checking,
    ) -> Result<Self, AddressError> {
        layout.check_pe(pe)?;
        let slice = layout.hbm_slice();
        let hbm = FreeList::of(Space::Hbm(sip, cube, pe), slice, checking);
        let tcm = FreeList::of(Space::Tcm(sip, cube, pe), layout.tcm_allocatable(), checking);
        Ok(Self { sip, cube, pe, slice, hbm, tcm })
    }

    /// Returns the free list of the HBM slice.
    pub fn hbm(&self) -> &FreeList {
        &self.hbm
    }

    /// Returns the free list of the TCM.
    pub fn tcm(&self) -> &FreeList {
        &self.tcm
    }

    /// Allocates `bytes` of the HBM slice, by first fit.
    pub fn allocate_hbm(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.hbm.allocate(bytes)?;
        Ok(complete(PhysAddr::pe_hbm(self.sip, self.cube, self.pe, offset, self.slice)))
    }

    /// Frees `bytes` of the HBM slice, starting at `address`.
    pub fn free_hbm(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let here = self.is_here(address) && address.hbm_pe(self.slice) == Some(self.pe);
        let offset = address.hbm_offset().filter(|_| here);
        let offset = offset.map(|offset| Bytes::new(offset.get() % self.slice.get()));
        self.hbm.free_address(address, offset, bytes)
    }

    /// Allocates `bytes` of the TCM, by first fit.
    pub fn allocate_tcm(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.tcm.allocate(bytes)?;
        Ok(complete(PhysAddr::pe_tcm(self.sip, self.cube, self.pe, offset)))
    }

    /// Frees `bytes` of the TCM, starting at `address`.
    pub fn free_tcm(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let offset = match address.window() {
            Window::Tcm { pe, offset } if pe == self.pe && self.is_here(address) => Some(offset),
            _ => None,
        };
        self.tcm.free_address(address, offset, bytes)
    }

    fn is_here(&self, address: PhysAddr) -> bool {
        address.sip() == self.sip && address.cube() == Some(self.cube)
    }
}

/// The SRAM of one cube, which its PEs share (D7).
#[derive(Clone, Debug)]
pub struct CubeSram {
    sip: SipId,
    cube: CubeId,
    sram: FreeList,
}

impl CubeSram {
    /// Creates the SRAM of a cube, all free.
    pub fn new(sip: SipId, cube: CubeId, layout: &AddressLayout, checking: Checking) -> Self {
        let sram = FreeList::of(Space::Sram(sip, cube), layout.sram(), checking);
        Self { sip, cube, sram }
    }

    /// Returns the free list of the SRAM.
    pub fn sram(&self) -> &FreeList {
        &self.sram
    }

    /// Allocates `bytes`, by first fit.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.sram.allocate(bytes)?;
        Ok(complete(PhysAddr::cube_sram(self.sip, self.cube, offset)))
    }

    /// Frees `bytes`, starting at `address`.
    pub fn free(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let here = address.sip() == self.sip && address.cube() == Some(self.cube);
        let offset = match address.window() {
            Window::Sram { offset } if here => Some(offset),
            _ => None,
        };
        self.sram.free_address(address, offset, bytes)
    }
}
