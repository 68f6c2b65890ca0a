//! `PhysAddr`: a complete, self-describing physical address.
//!
//! An address has 51 bits: `[50:47]` the SIP, `[46:42]` the die, `[41:0]` the offset in the die. Dies 0 to 15 are
//! cubes, 16 to 20 are IO chiplets, and 21 to 31 are reserved. A cube's offset falls into one of these windows:
//!
//! | offset in the die            | size    | window                                                 |
//! |------------------------------|---------|--------------------------------------------------------|
//! | `0x00_0000_0000`             | 128 GiB | HBM, all slices one after the other                    |
//! | `0x20_0000_0000`             |  64 GiB | PE-local: 1 GiB a PE, TCM below and registers above    |
//! | `0x30_0000_0000`             |  32 GiB | `M_CPU`                                                |
//! | `0x38_0000_0000`             |  32 GiB | SRAM                                                   |
//! | `0x40_0000_0000` to the end  |         | nothing                                                |
//!
//! The window positions are our choice; the published layout only states that a cube uses the low 256 GiB of its 4 TiB.
//! HBM comes first, so that its offset equals the die's offset. Its window is more than twice the present 48 GiB. The
//! size of every window is a power of two and its start is a multiple of its size, so three bits identify the window
//! and the rest is the offset in it. An IO chiplet has one window of 1 TiB.
//!
//! Only valid addresses can be constructed, so decoding cannot fail.
//!
//! ```
//! use cubeyard_memory::Bytes;
//! use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId, Window};
//!
//! let (sip, cube, pe) = (SipId::new(0)?, CubeId::new(3)?, PeId::new(2)?);
//! let address = PhysAddr::pe_hbm(sip, cube, pe, Bytes::kib(4), Bytes::gib(6))?;
//! assert_eq!(address.to_string(), "sip0.cube3.hbm+0x300001000");
//! assert_eq!(address.window(), Window::Hbm { offset: Bytes::gib(12) + Bytes::kib(4) });
//! assert_eq!(address.hbm_pe(Bytes::gib(6)), Some(pe));
//! assert_eq!(PhysAddr::from_bits(address.to_bits()), Ok(address));
//! # Ok::<(), cubeyard_memory::address::AddressError>(())
//! ```

mod ids;
#[cfg(test)]
mod tests;
mod window;

pub use ids::{CubeId, DeviceVa, Die, IoChipletId, PeId, SipId};
pub use window::Window;

use std::fmt;

use crate::Bytes;

/// Lowest bit of the SIP's number.
const SIP_SHIFT: u32 = 47;
/// Lowest bit of the die's number.
const DIE_SHIFT: u32 = 42;

/// An invalid number or offset in an address. The same input always fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No SIP, cube, chiplet or PE has this number.
    #[error("there is no {field} {value}: the number must be below {limit}")]
    Number {
        /// Name of the kind of number.
        field: &'static str,
        /// The number given.
        value: u32,
        /// Lowest number that is out of range.
        limit: u32,
    },
    /// The offset is outside its window or slice.
    #[error("offset {:#x} is outside the {field}, which is {:#x} bytes long", offset.get(), limit.get())]
    Offset {
        /// Name of the window or slice.
        field: &'static str,
        /// The offset given.
        offset: Bytes,
        /// Lowest offset that is out of range.
        limit: Bytes,
    },
    /// The PE's HBM slice extends beyond the cube's HBM window.
    #[error("{pe} with slices of {:#x} bytes is outside the HBM window, which is {:#x} bytes long", slice.get(), limit.get())]
    Slice {
        /// The PE given.
        pe: PeId,
        /// Size of a slice given.
        slice: Bytes,
        /// Size of the HBM window.
        limit: Bytes,
    },
    /// The number has bits above the 51 of an address.
    #[error("{bits:#x} has more than the 51 bits of an address")]
    TooWide {
        /// The number given.
        bits: u64,
    },
    /// The number names a die that is neither a cube nor an IO chiplet.
    #[error("{bits:#x} is on die {die}, but dies above 20 are reserved")]
    ReservedDie {
        /// The number given.
        bits: u64,
        /// Number of the die.
        die: u32,
    },
    /// The address lies between the windows of its die.
    #[error("{bits:#x} is offset {:#x} of {die}, which is in no window", offset.get())]
    Unmapped {
        /// The number given.
        bits: u64,
        /// Number of the die.
        die: Die,
        /// Offset in the die.
        offset: Bytes,
    },
}

/// A physical address of the whole system. See the [module](self).
///
/// Addresses are ordered by SIP, die and offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(u64);

impl PhysAddr {
    /// Width of an address in bits: no physical address is 2⁵¹ or above.
    pub const BITS: u32 = 51;

    fn new(sip: SipId, die: Die, window: Window) -> Result<Self, AddressError> {
        let offset = window.encode()?;
        Ok(Self(sip.field() << SIP_SHIFT | die.field() << DIE_SHIFT | offset))
    }

    /// Returns the address at `offset` of the HBM slice of a PE, where every slice of the cube is `slice` long.
    pub fn pe_hbm(
        sip: SipId,
        cube: CubeId,
        pe: PeId,
        offset: Bytes,
        slice: Bytes,
    ) -> Result<Self, AddressError> {
        if offset >= slice {
            return Err(AddressError::Offset { field: "HBM slice", offset, limit: slice });
        }
        let limit = Window::HBM_BYTES;
        let end = slice.get().checked_mul(pe.field() + 1).filter(|&end| end <= limit.get());
        let end = end.ok_or(AddressError::Slice { pe, slice, limit })?;
        Self::cube_hbm(sip, cube, Bytes::new(end) - slice + offset)
    }

    /// Returns the address at `offset` of a cube's whole HBM.
    pub fn cube_hbm(sip: SipId, cube: CubeId, offset: Bytes) -> Result<Self, AddressError> {
        Self::new(sip, Die::Cube(cube), Window::Hbm { offset })
    }

    /// Returns the address at `offset` of the TCM of a PE.
    pub fn pe_tcm(sip: SipId, cube: CubeId, pe: PeId, offset: Bytes) -> Result<Self, AddressError> {
        Self::new(sip, Die::Cube(cube), Window::Tcm { pe, offset })
    }

    /// Returns the address at `offset` of the registers of a PE.
    pub fn pe_registers(
        sip: SipId,
        cube: CubeId,
        pe: PeId,
        offset: Bytes,
    ) -> Result<Self, AddressError> {
        Self::new(sip, Die::Cube(cube), Window::Registers { pe, offset })
    }

    /// Returns the address at `offset` of the window of a cube's management processor.
    pub fn cube_m_cpu(sip: SipId, cube: CubeId, offset: Bytes) -> Result<Self, AddressError> {
        Self::new(sip, Die::Cube(cube), Window::MCpu { offset })
    }

    /// Returns the address at `offset` of the SRAM of a cube.
    pub fn cube_sram(sip: SipId, cube: CubeId, offset: Bytes) -> Result<Self, AddressError> {
        Self::new(sip, Die::Cube(cube), Window::Sram { offset })
    }

    /// Returns the address at `offset` of an IO chiplet.
    pub fn io_chiplet(
        sip: SipId,
        chiplet: IoChipletId,
        offset: Bytes,
    ) -> Result<Self, AddressError> {
        Self::new(sip, Die::IoChiplet(chiplet), Window::IoChiplet { offset })
    }

    /// Decodes an address.
    pub fn from_bits(bits: u64) -> Result<Self, AddressError> {
        if bits >> Self::BITS != 0 {
            return Err(AddressError::TooWide { bits });
        }
        let die = field(bits, DIE_SHIFT, SIP_SHIFT);
        let die = Die::from_field(die).ok_or(AddressError::ReservedDie { bits, die })?;
        let address = Self(bits);
        let offset = address.die_offset();
        Window::decode(die, offset).ok_or(AddressError::Unmapped { bits, die, offset })?;
        Ok(address)
    }

    /// Encodes the address.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the SIP that the address is on.
    pub fn sip(self) -> SipId {
        sound(SipId::new(field(self.0, SIP_SHIFT, Self::BITS)).ok())
    }

    /// Returns the die that the address is on.
    pub fn die(self) -> Die {
        sound(Die::from_field(field(self.0, DIE_SHIFT, SIP_SHIFT)))
    }

    /// Returns the cube that the address is on, or `None` for an IO chiplet.
    pub fn cube(self) -> Option<CubeId> {
        match self.die() {
            Die::Cube(cube) => Some(cube),
            Die::IoChiplet(_) => None,
        }
    }

    /// Returns the offset in the die.
    pub const fn die_offset(self) -> Bytes {
        Bytes::new(self.0 & ((1 << DIE_SHIFT) - 1))
    }

    /// Returns the window that the address lies in, with the offset in it.
    pub fn window(self) -> Window {
        sound(Window::decode(self.die(), self.die_offset()))
    }

    /// Returns the offset in the window. For TCM and registers, it is relative to the PE's part of the window.
    pub fn sub_offset(self) -> Bytes {
        self.window().offset()
    }

    /// Returns the offset in the cube's whole HBM, or `None` for an address outside HBM.
    pub fn hbm_offset(self) -> Option<Bytes> {
        match self.window() {
            Window::Hbm { offset } => Some(offset),
            _ => None,
        }
    }

    /// Returns the PE whose HBM slice contains the address, for slices of `slice` bytes. Returns `None` for an address
    /// outside HBM, and if the slice's number exceeds the valid PE numbers. Only
    /// [`AddressLayout::hbm_pe`](crate::pe::AddressLayout::hbm_pe) knows the number of slices.
    pub fn hbm_pe(self, slice: Bytes) -> Option<PeId> {
        let pe = self.hbm_offset()?.get().checked_div(slice.get())?;
        PeId::new(u32::try_from(pe).ok()?).ok()
    }
}

/// Unwraps a field of an address. The constructors only build addresses whose fields decode.
fn sound<T>(part: Option<T>) -> T {
    part.expect("an address is checked when it is made")
}

/// Returns bits `low .. high` of an address, at most 32 of them.
fn field(bits: u64, low: u32, high: u32) -> u32 {
    let field = (bits >> low) & ((1 << (high - low)) - 1);
    u32::try_from(field).expect("the numbers of SIPs and dies have five bits at most")
}

/// Formats the address as in `sip0.cube3.pe2.tcm+0x40`.
impl fmt::Display for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.sip(), self.die())?;
        match self.window() {
            Window::Hbm { .. } => f.write_str(".hbm")?,
            Window::Tcm { pe, .. } => write!(f, ".{pe}.tcm")?,
            Window::Registers { pe, .. } => write!(f, ".{pe}.registers")?,
            Window::MCpu { .. } => f.write_str(".m_cpu")?,
            Window::Sram { .. } => f.write_str(".sram")?,
            Window::IoChiplet { .. } => {}
        }
        write!(f, "+{:#x}", self.sub_offset().get())
    }
}

impl fmt::Debug for PhysAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PhysAddr({:#x}, {self})", self.0)
    }
}
