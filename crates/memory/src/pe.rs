//! The memories of a PE and of a cube, which hand out complete physical addresses (ADR-0048).
//!
//! Each address space has a free list of its own (D7): a [`PeMemory`] has one for the PE's slice of the
//! HBM and one for its TCM, a [`CubeSram`] has one for the SRAM of a cube. Nothing is shared between
//! them, so building them for a range of SIPs, cubes and PEs, when they are first needed, is a loop in
//! whoever owns them. Dropping one gives nothing back to anybody; a new one is all free.
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

use std::fmt;

use crate::Bytes;
use crate::address::{AddressError, CubeId, PeId, PhysAddr, SipId, Window};
use crate::free_list::{self, Checking, FreeList};

/// An address space with a free list of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The HBM slice of a PE.
    Hbm(SipId, CubeId, PeId),
    /// The TCM of a PE.
    Tcm(SipId, CubeId, PeId),
    /// The SRAM of a cube.
    Sram(SipId, CubeId),
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hbm(sip, cube, pe) => write!(f, "HBM of {sip}.{cube}.{pe}"),
            Self::Tcm(sip, cube, pe) => write!(f, "TCM of {sip}.{cube}.{pe}"),
            Self::Sram(sip, cube) => write!(f, "SRAM of {sip}.{cube}"),
        }
    }
}

/// Why a space gave no memory; it gave none at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{space}: {cause}")]
pub struct AllocateError {
    /// The space that was asked.
    pub space: Space,
    /// What was wrong, and what can be done about it.
    pub cause: free_list::AllocateError,
}

/// Why a space took no memory back. Nothing has changed and the space can be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// The address belongs to another space; free it there.
    #[error("{space}: {address} is not part of it")]
    Foreign {
        /// The space that was asked.
        space: Space,
        /// The address given.
        address: PhysAddr,
    },
    /// The range cannot be freed. Offsets count from the start of the space.
    #[error("{space}: {cause}")]
    Refused {
        /// The space that was asked.
        space: Space,
        /// What was wrong with the range.
        cause: free_list::FreeError,
    },
}

/// A free list that knows what it is the list of.
#[derive(Clone, Debug)]
struct Memory {
    space: Space,
    list: FreeList,
}

impl Memory {
    fn new(space: Space, capacity: Bytes, checking: Checking) -> Self {
        Self { space, list: FreeList::new(capacity, checking) }
    }

    fn allocate(&mut self, bytes: Bytes) -> Result<Bytes, AllocateError> {
        let space = self.space;
        self.list.allocate(bytes).map_err(|cause| AllocateError { space, cause })
    }

    /// Frees `bytes` at `offset`, which is where `address` is in this space, if it is there at all.
    fn free(
        &mut self,
        address: PhysAddr,
        offset: Option<Bytes>,
        bytes: Bytes,
    ) -> Result<(), FreeError> {
        let space = self.space;
        let offset = offset.ok_or(FreeError::Foreign { space, address })?;
        self.list.free(offset, bytes).map_err(|cause| FreeError::Refused { space, cause })
    }
}

/// An address made from an offset that a free list gave. It exists, since the list is as long as a
/// resolved layout says.
fn complete(address: Result<PhysAddr, AddressError>) -> PhysAddr {
    address.expect("a layout is checked against the windows when it is resolved")
}

/// The memory of one PE: its slice of the HBM, and its TCM less what the scheduler keeps (D3).
///
/// The scheduler's part is the upper end of the TCM, which this type does not know of.
#[derive(Clone, Debug)]
pub struct PeMemory {
    sip: SipId,
    cube: CubeId,
    pe: PeId,
    slice: Bytes,
    hbm: Memory,
    tcm: Memory,
}

impl PeMemory {
    /// The memory of a PE, all free. Fails for a PE that has no HBM slice.
    pub fn new(
        sip: SipId,
        cube: CubeId,
        pe: PeId,
        layout: &AddressLayout,
        checking: Checking,
    ) -> Result<Self, AddressError> {
        layout.check_pe(pe)?;
        let slice = layout.hbm_slice();
        let hbm = Memory::new(Space::Hbm(sip, cube, pe), slice, checking);
        let tcm = Memory::new(Space::Tcm(sip, cube, pe), layout.tcm_allocatable(), checking);
        Ok(Self { sip, cube, pe, slice, hbm, tcm })
    }

    /// How full the HBM slice is.
    pub fn hbm(&self) -> &FreeList {
        &self.hbm.list
    }

    /// How full the TCM is.
    pub fn tcm(&self) -> &FreeList {
        &self.tcm.list
    }

    /// Takes `bytes` of the HBM slice, by first fit.
    pub fn allocate_hbm(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.hbm.allocate(bytes)?;
        Ok(complete(PhysAddr::pe_hbm(self.sip, self.cube, self.pe, offset, self.slice)))
    }

    /// Gives `bytes` of the HBM slice back, from `address` on.
    pub fn free_hbm(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let here = self.is_here(address) && address.hbm_pe(self.slice) == Some(self.pe);
        let offset = address.hbm_offset().filter(|_| here);
        let offset = offset.map(|offset| Bytes::new(offset.get() % self.slice.get()));
        self.hbm.free(address, offset, bytes)
    }

    /// Takes `bytes` of the TCM, by first fit.
    pub fn allocate_tcm(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.tcm.allocate(bytes)?;
        Ok(complete(PhysAddr::pe_tcm(self.sip, self.cube, self.pe, offset)))
    }

    /// Gives `bytes` of the TCM back, from `address` on.
    pub fn free_tcm(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let offset = match address.window() {
            Window::Tcm { pe, offset } if pe == self.pe && self.is_here(address) => Some(offset),
            _ => None,
        };
        self.tcm.free(address, offset, bytes)
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
    sram: Memory,
}

impl CubeSram {
    /// The SRAM of a cube, all free.
    pub fn new(sip: SipId, cube: CubeId, layout: &AddressLayout, checking: Checking) -> Self {
        let sram = Memory::new(Space::Sram(sip, cube), layout.sram(), checking);
        Self { sip, cube, sram }
    }

    /// How full it is.
    pub fn sram(&self) -> &FreeList {
        &self.sram.list
    }

    /// Takes `bytes`, by first fit.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<PhysAddr, AllocateError> {
        let offset = self.sram.allocate(bytes)?;
        Ok(complete(PhysAddr::cube_sram(self.sip, self.cube, offset)))
    }

    /// Gives `bytes` back, from `address` on.
    pub fn free(&mut self, address: PhysAddr, bytes: Bytes) -> Result<(), FreeError> {
        let here = address.sip() == self.sip && address.cube() == Some(self.cube);
        let offset = match address.window() {
            Window::Sram { offset } if here => Some(offset),
            _ => None,
        };
        self.sram.free(address, offset, bytes)
    }
}
