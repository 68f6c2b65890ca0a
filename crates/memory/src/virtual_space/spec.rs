//! Specification of a virtual address range and its pages.

use super::DeviceVa;
use crate::Bytes;
use crate::free_list::{Checking, Exact};

/// Properties of a [`VirtualAllocator`](super::VirtualAllocator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualSpec {
    /// First address of the range, a multiple of `page`.
    pub base: DeviceVa,
    /// Length of the range, a multiple of `page`.
    pub size: Bytes,
    /// Size of a page, a power of two.
    pub page: Bytes,
    /// Verification of frees.
    pub checking: Checking,
}

/// An invalid range. Correct the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VirtualSpecError {
    /// The page size is not a power of two.
    #[error("a page of {} is not a power of two", Exact(*page))]
    Page {
        /// Page size given.
        page: Bytes,
    },
    /// The range does not start at a page boundary.
    #[error("{base} is not a multiple of the page of {}", Exact(*page))]
    Base {
        /// First address given.
        base: DeviceVa,
        /// Size of a page.
        page: Bytes,
    },
    /// The length of the range is zero or not a multiple of the page.
    #[error("a size of {} is not a positive multiple of the page of {}", Exact(*size), Exact(*page))]
    Size {
        /// Length of the range given.
        size: Bytes,
        /// Size of a page.
        page: Bytes,
    },
    /// The range ends beyond the 64-bit address space.
    #[error("a range of {} from {base} exceeds the 64-bit address space", Exact(*size))]
    End {
        /// First address given.
        base: DeviceVa,
        /// Length of the range given.
        size: Bytes,
    },
}

impl VirtualSpec {
    /// Default page size of a stand-alone MMU.
    pub const PAGE: Bytes = Bytes::mib(2);
    /// Page size of a context whose topology specifies none.
    pub const CONTEXT_PAGE: Bytes = Bytes::kib(4);
    /// First address of a context's range by ADR-0048, above the host's low addresses. Physical addresses may overlap
    /// it; a runtime that must distinguish the two starts at 2⁵¹.
    pub const CONTEXT_BASE: DeviceVa = DeviceVa::new(0x1_0000_0000);
    /// Minimum length of a context's range.
    pub const CONTEXT_SIZE: Bytes = Bytes::gib(64);

    /// Describes a range in pages of 2 MiB, with trusted frees.
    pub const fn new(base: DeviceVa, size: Bytes) -> Self {
        Self { base, size, page: Self::PAGE, checking: Checking::Trusted }
    }

    /// Describes the range of a context whose target devices have `hbm` bytes in total. The range has that length (in
    /// whole pages), but at least 64 GiB. `page` is the topology's `pe_mmu.page_size`, 4 KiB if `None`.
    pub fn for_context(hbm: Bytes, page: Option<Bytes>) -> Self {
        let page = page.unwrap_or(Self::CONTEXT_PAGE);
        let least = hbm.max(Self::CONTEXT_SIZE);
        // A size that cannot be rounded is kept, and the allocator refuses it.
        let size = least.get().checked_next_multiple_of(page.get()).map_or(least, Bytes::new);
        Self { page, ..Self::new(Self::CONTEXT_BASE, size) }
    }

    pub(super) fn check(&self) -> Result<(), VirtualSpecError> {
        let Self { base, size, page, .. } = *self;
        if !page.get().is_power_of_two() {
            return Err(VirtualSpecError::Page { page });
        }
        if !Bytes::new(base.to_bits()).is_aligned(page) {
            return Err(VirtualSpecError::Base { base, page });
        }
        if size.is_zero() || !size.is_aligned(page) {
            return Err(VirtualSpecError::Size { size, page });
        }
        base.checked_add(size).map(|_| ()).ok_or(VirtualSpecError::End { base, size })
    }
}
