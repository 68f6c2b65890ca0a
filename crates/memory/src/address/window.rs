//! Windows into which the offset in a die is divided.

use super::{AddressError, Die, PeId};
use crate::Bytes;

const PE_LOCAL: u64 = 1 << 37;
/// Size of the PE-local window of each PE: TCM in the lower half, registers in the upper half.
const PE_STRIDE: u64 = 1 << 30;
const M_CPU: u64 = 3 << 36;
const SRAM: u64 = 7 << 35;

/// A location in a die: the window and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The HBM of a cube.
    Hbm {
        /// Offset from the start of the cube's HBM.
        offset: Bytes,
    },
    /// The TCM of a PE.
    Tcm {
        /// PE that owns the TCM.
        pe: PeId,
        /// Offset from the start of the TCM.
        offset: Bytes,
    },
    /// The registers of a PE.
    Registers {
        /// PE that owns the registers.
        pe: PeId,
        /// Offset from the start of the registers.
        offset: Bytes,
    },
    /// The window of a cube's management processor.
    MCpu {
        /// Offset from the start of the window.
        offset: Bytes,
    },
    /// The SRAM of a cube.
    Sram {
        /// Offset from the start of the SRAM.
        offset: Bytes,
    },
    /// The window of an IO chiplet.
    IoChiplet {
        /// Offset from the start of the die.
        offset: Bytes,
    },
}

impl Window {
    /// Size of a cube's HBM window.
    pub const HBM_BYTES: Bytes = Bytes::gib(128);
    /// Size of a PE's TCM window.
    pub const TCM_BYTES: Bytes = Bytes::mib(512);
    /// Size of a PE's register window.
    pub const REGISTER_BYTES: Bytes = Bytes::mib(512);
    /// Size of a management processor's window.
    pub const M_CPU_BYTES: Bytes = Bytes::gib(32);
    /// Size of a cube's SRAM window.
    pub const SRAM_BYTES: Bytes = Bytes::gib(32);
    /// Size of an IO chiplet's window.
    pub const IO_CHIPLET_BYTES: Bytes = Bytes::gib(1024);

    /// Returns the offset in the window.
    pub const fn offset(self) -> Bytes {
        match self {
            Self::Hbm { offset }
            | Self::Tcm { offset, .. }
            | Self::Registers { offset, .. }
            | Self::MCpu { offset }
            | Self::Sram { offset }
            | Self::IoChiplet { offset } => offset,
        }
    }

    /// Returns the PE that the window belongs to. HBM belongs to the cube;
    /// [`PhysAddr::hbm_pe`](super::PhysAddr::hbm_pe) returns the PE of a slice.
    pub const fn pe(self) -> Option<PeId> {
        match self {
            Self::Tcm { pe, .. } | Self::Registers { pe, .. } => Some(pe),
            _ => None,
        }
    }

    /// Returns the offset in the die.
    pub(super) fn encode(self) -> Result<u64, AddressError> {
        let (field, start, limit) = self.extent();
        let offset = self.offset();
        if offset >= limit {
            return Err(AddressError::Offset { field, offset, limit });
        }
        Ok(start + offset.get())
    }

    /// Returns the location at `offset` of `die`, or `None` if it lies between the windows.
    pub(super) fn decode(die: Die, offset: Bytes) -> Option<Self> {
        let bits = offset.get();
        match (die, bits >> 35) {
            (Die::IoChiplet(_), _) => {
                (offset < Self::IO_CHIPLET_BYTES).then_some(Self::IoChiplet { offset })
            }
            (Die::Cube(_), 0..=3) => Some(Self::Hbm { offset }),
            (Die::Cube(_), 4..=5) => Some(Self::decode_pe(bits - PE_LOCAL)),
            (Die::Cube(_), 6) => Some(Self::MCpu { offset: Bytes::new(bits - M_CPU) }),
            (Die::Cube(_), 7) => Some(Self::Sram { offset: Bytes::new(bits - SRAM) }),
            (Die::Cube(_), 8..) => None,
        }
    }

    fn decode_pe(bits: u64) -> Self {
        let pe = u32::try_from(bits / PE_STRIDE).ok().and_then(|pe| PeId::new(pe).ok());
        let pe = pe.expect("the PE-local window is as long as the PEs in it");
        let offset = Bytes::new(bits % PE_STRIDE);
        if offset < Self::TCM_BYTES {
            Self::Tcm { pe, offset }
        } else {
            Self::Registers { pe, offset: offset - Self::TCM_BYTES }
        }
    }

    /// Returns the name of the window, its start in the die and its length.
    fn extent(self) -> (&'static str, u64, Bytes) {
        let local = |pe: PeId| PE_LOCAL + pe.field() * PE_STRIDE;
        match self {
            Self::Hbm { .. } => ("HBM window", 0, Self::HBM_BYTES),
            Self::Tcm { pe, .. } => ("TCM window", local(pe), Self::TCM_BYTES),
            Self::Registers { pe, .. } => {
                ("register window", local(pe) + Self::TCM_BYTES.get(), Self::REGISTER_BYTES)
            }
            Self::MCpu { .. } => ("M_CPU window", M_CPU, Self::M_CPU_BYTES),
            Self::Sram { .. } => ("SRAM window", SRAM, Self::SRAM_BYTES),
            Self::IoChiplet { .. } => ("IO chiplet window", 0, Self::IO_CHIPLET_BYTES),
        }
    }
}
