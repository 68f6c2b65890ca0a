//! The windows that the offset in a die is divided into.

use super::{AddressError, Die, PeId};
use crate::Bytes;

/// Where the PE-local window of a cube starts.
const PE_LOCAL: u64 = 1 << 37;
/// What each PE has of it. The lower half is TCM and the upper half registers, so that an offset in
/// the TCM is the offset in the PE, too.
const PE_STRIDE: u64 = 1 << 30;
/// Where the window of the management processor starts.
const M_CPU: u64 = 3 << 36;
/// Where the SRAM window starts.
const SRAM: u64 = 7 << 35;

/// A place in a die: the window, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The HBM of a cube.
    Hbm {
        /// From the start of the cube's HBM.
        offset: Bytes,
    },
    /// The TCM of a PE.
    Tcm {
        /// Whose TCM.
        pe: PeId,
        /// From the start of that.
        offset: Bytes,
    },
    /// The registers of a PE.
    Registers {
        /// Whose registers.
        pe: PeId,
        /// From the start of these.
        offset: Bytes,
    },
    /// What belongs to the management processor of a cube.
    MCpu {
        /// From the start of the window.
        offset: Bytes,
    },
    /// The SRAM of a cube.
    Sram {
        /// From the start of the SRAM.
        offset: Bytes,
    },
    /// Anything on an IO chiplet.
    IoChiplet {
        /// From the start of the die.
        offset: Bytes,
    },
}

impl Window {
    /// The size of a cube's HBM window.
    pub const HBM_BYTES: Bytes = Bytes::gib(128);
    /// The size of a PE's TCM window.
    pub const TCM_BYTES: Bytes = Bytes::mib(512);
    /// The size of a PE's register window.
    pub const REGISTER_BYTES: Bytes = Bytes::mib(512);
    /// The size of a management processor's window.
    pub const M_CPU_BYTES: Bytes = Bytes::gib(32);
    /// The size of a cube's SRAM window.
    pub const SRAM_BYTES: Bytes = Bytes::gib(32);
    /// The size of an IO chiplet's window.
    pub const IO_CHIPLET_BYTES: Bytes = Bytes::gib(1024);

    /// The offset in the window.
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

    /// The PE that the window belongs to. HBM belongs to the cube; whose slice a place in it is,
    /// [`PhysAddr::hbm_pe`](super::PhysAddr::hbm_pe) says.
    pub const fn pe(self) -> Option<PeId> {
        match self {
            Self::Tcm { pe, .. } | Self::Registers { pe, .. } => Some(pe),
            _ => None,
        }
    }

    /// The offset in the die.
    pub(super) fn encode(self) -> Result<u64, AddressError> {
        let (field, start, limit) = self.extent();
        let offset = self.offset();
        if offset >= limit {
            return Err(AddressError::Offset { field, offset, limit });
        }
        Ok(start + offset.get())
    }

    /// The place at `offset` of `die`, unless that is between the windows.
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

    /// The place at `bits` of the PE-local window.
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

    /// What the window is called, where in the die it starts and how long it is.
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
