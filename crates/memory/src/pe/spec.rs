//! How much memory a cube and its PEs have: as given, and as meant.

use crate::Bytes;
use crate::address::{AddressError, PeId, PhysAddr, Window};
use crate::free_list::Exact;

/// The sizes of the memories, as a topology gives them. [Resolve](Self::resolve) it for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// All the HBM of a cube.
    pub hbm_bytes_per_cube: Bytes,
    /// Into how many equal slices that is cut, one for each PE. What does not divide is not used.
    pub hbm_slices_per_cube: u32,
    /// All the TCM of a PE.
    pub tcm_bytes_per_pe: Bytes,
    /// How much of that the PE's scheduler keeps for itself, at the upper end.
    pub tcm_scheduler_reserved_bytes: Bytes,
    /// The SRAM of a cube.
    pub sram_bytes_per_cube: Bytes,
}

/// Why sizes do not go together. All of these are final: correct the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A memory is longer than its window of the addresses.
    #[error("{field} is {}, but addresses have room for {}", Exact(*bytes), Exact(*limit))]
    TooLarge {
        /// The field of the spec.
        field: &'static str,
        /// Its value.
        bytes: Bytes,
        /// The highest value that it can have.
        limit: Bytes,
    },
    /// HBM cannot be cut into that many slices.
    #[error("hbm_slices_per_cube is {slices}, but must be from 1 to {limit}")]
    Slices {
        /// The number of slices given.
        slices: u32,
        /// The highest possible number.
        limit: u32,
    },
    /// There are more slices than bytes.
    #[error("hbm_bytes_per_cube is {}, less than a byte for each of {slices} slices", Exact(*bytes))]
    EmptySlices {
        /// All the HBM of a cube.
        bytes: Bytes,
        /// The number of slices given.
        slices: u32,
    },
    /// The scheduler keeps more TCM than there is.
    #[error("tcm_scheduler_reserved_bytes is {}, but tcm_bytes_per_pe only {}", Exact(*reserved), Exact(*tcm))]
    Reserved {
        /// How much the scheduler keeps.
        reserved: Bytes,
        /// All the TCM of a PE.
        tcm: Bytes,
    },
}

impl AddressSpec {
    /// The sizes that follow, if these go together and fit into addresses.
    pub fn resolve(&self) -> Result<AddressLayout, SpecError> {
        self.check_windows()?;
        let (bytes, slices) = (self.hbm_bytes_per_cube, self.hbm_slices_per_cube);
        if !(1..=PeId::COUNT).contains(&slices) {
            return Err(SpecError::Slices { slices, limit: PeId::COUNT });
        }
        let hbm_slice = Bytes::new(bytes.get() / u64::from(slices));
        if hbm_slice.is_zero() {
            return Err(SpecError::EmptySlices { bytes, slices });
        }
        let (tcm, reserved) = (self.tcm_bytes_per_pe, self.tcm_scheduler_reserved_bytes);
        if reserved > tcm {
            return Err(SpecError::Reserved { reserved, tcm });
        }
        let (tcm_allocatable, sram) = (tcm - reserved, self.sram_bytes_per_cube);
        Ok(AddressLayout { hbm_slice, hbm_slices: slices, tcm_allocatable, sram })
    }

    fn check_windows(&self) -> Result<(), SpecError> {
        let memories = [
            ("hbm_bytes_per_cube", self.hbm_bytes_per_cube, Window::HBM_BYTES),
            ("tcm_bytes_per_pe", self.tcm_bytes_per_pe, Window::TCM_BYTES),
            ("sram_bytes_per_cube", self.sram_bytes_per_cube, Window::SRAM_BYTES),
        ];
        match memories.into_iter().find(|(_, bytes, limit)| bytes > limit) {
            Some((field, bytes, limit)) => Err(SpecError::TooLarge { field, bytes, limit }),
            None => Ok(()),
        }
    }
}

/// The sizes of the memories, as they are used: they go together and fit into addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLayout {
    hbm_slice: Bytes,
    hbm_slices: u32,
    tcm_allocatable: Bytes,
    sram: Bytes,
}

impl AddressLayout {
    /// The HBM of one PE.
    pub fn hbm_slice(&self) -> Bytes {
        self.hbm_slice
    }

    /// How many PEs of a cube have HBM.
    pub fn hbm_slices(&self) -> u32 {
        self.hbm_slices
    }

    /// The TCM of one PE, without what its scheduler keeps.
    pub fn tcm_allocatable(&self) -> Bytes {
        self.tcm_allocatable
    }

    /// The SRAM of one cube.
    pub fn sram(&self) -> Bytes {
        self.sram
    }

    /// The PE in whose HBM slice `address` is; `None` outside HBM and behind the last slice.
    pub fn hbm_pe(&self, address: PhysAddr) -> Option<PeId> {
        address.hbm_pe(self.hbm_slice).filter(|&pe| self.check_pe(pe).is_ok())
    }

    /// Refuses a PE that has no HBM slice.
    pub(super) fn check_pe(&self, pe: PeId) -> Result<(), AddressError> {
        let (value, limit) = (pe.number(), self.hbm_slices);
        if value < limit {
            return Ok(());
        }
        Err(AddressError::Number { field: "HBM slice for PE", value, limit })
    }
}
