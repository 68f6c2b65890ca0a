//! Ranges of virtual addresses and their pages.

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

/// A range that cannot exist. Correct the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VirtualSpecError {
    /// The size of a page is no power of two.
    #[error("a page of {} is not a power of two", Exact(*page))]
    Page {
        /// Size of a page given.
        page: Bytes,
    },
    /// The range does not start with a page.
    #[error("{base} is not a multiple of the page of {}", Exact(*page))]
    Base {
        /// First address given.
        base: DeviceVa,
        /// Size of a page.
        page: Bytes,
    },
    /// The range does not consist of pages, or of none.
    #[error("a size of {} is not a positive multiple of the page of {}", Exact(*size), Exact(*page))]
    Size {
        /// Length of the range given.
        size: Bytes,
        /// Size of a page.
        page: Bytes,
    },
    /// The range does not end before 64 bits do.
    #[error("a range of {} from {base} leaves 64 bits", Exact(*size))]
    End {
        /// First address given.
        base: DeviceVa,
        /// Length of the range given.
        size: Bytes,
    },
}

impl VirtualSpec {
    /// Default size of a page: that of an MMU by itself.
    pub const PAGE: Bytes = Bytes::mib(2);
    /// Size of a page in a context whose topology names none.
    pub const CONTEXT_PAGE: Bytes = Bytes::kib(4);
    /// First address of a context's range by ADR-0048, above the host's low addresses. Physical addresses
    /// may be as low; a runtime that must tell them apart starts at 2⁵¹.
    pub const CONTEXT_BASE: DeviceVa = DeviceVa::new(0x1_0000_0000);
    /// Smallest length of a context's range.
    pub const CONTEXT_SIZE: Bytes = Bytes::gib(64);

    /// Describes a range in pages of 2 MiB, with trusted frees.
    pub const fn new(base: DeviceVa, size: Bytes) -> Self {
        Self { base, size, page: Self::PAGE, checking: Checking::Trusted }
    }

    /// Describes the range of a context whose target devices have `hbm` together: as long as that (in whole
    /// pages), but at least 64 GiB. `page` is the topology's `pe_mmu.page_size`, else 4 KiB.
    pub fn for_context(hbm: Bytes, page: Option<Bytes>) -> Self {
        let page = page.unwrap_or(Self::CONTEXT_PAGE);
        let least = hbm.max(Self::CONTEXT_SIZE);
        // What cannot be rounded stays as it is, for the allocator to refuse.
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
