//! Which range of virtual addresses, in which pages.

use super::DeviceVa;
use crate::Bytes;
use crate::free_list::{Checking, Exact};

/// What a [`VirtualAllocator`](super::VirtualAllocator) is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualSpec {
    /// Where the range starts: a multiple of `page`.
    pub base: DeviceVa,
    /// How long it is: a multiple of `page`.
    pub size: Bytes,
    /// The size of a page: a power of two.
    pub page: Bytes,
    /// How frees are treated.
    pub checking: Checking,
}

/// Why there can be no such range. All of these are final: correct the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VirtualSpecError {
    /// The size of a page is no power of two.
    #[error("a page of {} is not a power of two", Exact(*page))]
    Page {
        /// The size of a page given.
        page: Bytes,
    },
    /// The range does not start with a page.
    #[error("{base} is not a multiple of the page of {}", Exact(*page))]
    Base {
        /// Where the range should start.
        base: DeviceVa,
        /// The size of a page.
        page: Bytes,
    },
    /// The range does not consist of pages, or of none.
    #[error("a size of {} is not a positive multiple of the page of {}", Exact(*size), Exact(*page))]
    Size {
        /// The size given.
        size: Bytes,
        /// The size of a page.
        page: Bytes,
    },
    /// The range does not end before 64 bits do.
    #[error("a range of {} from {base} leaves 64 bits", Exact(*size))]
    End {
        /// Where the range should start.
        base: DeviceVa,
        /// The size given.
        size: Bytes,
    },
}

impl VirtualSpec {
    /// The page where nobody names one: what an MMU by itself has.
    pub const PAGE: Bytes = Bytes::mib(2);
    /// The page in a context whose topology names none: the smallest that is safe.
    pub const CONTEXT_PAGE: Bytes = Bytes::kib(4);
    /// Where the range of a context starts by ADR-0048, above whatever the host has in its low addresses. A physical
    /// address may be as low; a runtime whose addresses must not be mistaken for those starts at 2⁵¹.
    pub const CONTEXT_BASE: DeviceVa = DeviceVa::new(0x1_0000_0000);
    /// How long the range of a context is at least.
    pub const CONTEXT_SIZE: Bytes = Bytes::gib(64);

    /// A range in pages of 2 MiB, with trusted frees.
    pub const fn new(base: DeviceVa, size: Bytes) -> Self {
        Self { base, size, page: Self::PAGE, checking: Checking::Trusted }
    }

    /// The range of a context whose target devices have `hbm` together: as long as that (in whole
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
