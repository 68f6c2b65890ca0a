//! Sizes of the memories of a cube and its PEs: as given, and as resolved.

use crate::Bytes;
use crate::address::{AddressError, PeId, PhysAddr, Window};
use crate::free_list::Exact;

/// Sizes of the memories, as given by a topology. [Resolve](Self::resolve) it for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// HBM of a cube, in bytes.
    pub hbm_bytes_per_cube: Bytes,
    /// Number of equal HBM slices, one per PE. A remainder is not used.
    pub hbm_slices_per_cube: u32,
    /// TCM of a PE, in bytes.
    pub tcm_bytes_per_pe: Bytes,
    /// Part of the TCM that is reserved for the PE's scheduler, at the upper end.
    pub tcm_scheduler_reserved_bytes: Bytes,
    /// SRAM of a cube, in bytes.
    pub sram_bytes_per_cube: Bytes,
}

/// Inconsistent sizes. Correct the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A memory exceeds its address window.
    #[error("{field} is {}, but its address window has only {}", Exact(*bytes), Exact(*limit))]
    TooLarge {
        /// Field of the spec.
        field: &'static str,
        /// Value of the field.
        bytes: Bytes,
        /// Maximum value of the field.
        limit: Bytes,
    },
    /// The number of slices is out of range.
    #[error("hbm_slices_per_cube is {slices}, but must be from 1 to {limit}")]
    Slices {
        /// Number of slices given.
        slices: u32,
        /// Maximum number of slices.
        limit: u32,
    },
    /// There are more slices than bytes.
    #[error("hbm_bytes_per_cube is {}, less than one byte for each of {slices} slices", Exact(*bytes))]
    EmptySlices {
        /// HBM of a cube.
        bytes: Bytes,
        /// Number of slices given.
        slices: u32,
    },
    /// The scheduler's part exceeds the TCM.
    #[error("tcm_scheduler_reserved_bytes is {}, but tcm_bytes_per_pe is only {}", Exact(*reserved), Exact(*tcm))]
    Reserved {
        /// Part reserved for the scheduler.
        reserved: Bytes,
        /// TCM of a PE.
        tcm: Bytes,
    },
}

impl AddressSpec {
    /// Checks that the sizes are consistent and fit the address windows.
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

/// Resolved sizes of the memories: consistent, and within the address windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressLayout {
    hbm_slice: Bytes,
    hbm_slices: u32,
    tcm_allocatable: Bytes,
    sram: Bytes,
}

impl AddressLayout {
    /// Returns the HBM of one PE, in bytes.
    pub fn hbm_slice(&self) -> Bytes {
        self.hbm_slice
    }

    /// Returns the number of PEs of a cube that have HBM.
    pub fn hbm_slices(&self) -> u32 {
        self.hbm_slices
    }

    /// Returns the TCM of one PE without the scheduler's part, in bytes.
    pub fn tcm_allocatable(&self) -> Bytes {
        self.tcm_allocatable
    }

    /// Returns the SRAM of one cube, in bytes.
    pub fn sram(&self) -> Bytes {
        self.sram
    }

    /// Returns the PE whose HBM slice contains `address`; `None` outside HBM and after the last slice.
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
