//! `VirtualAllocator`: whole pages of a device-wide virtual address range (ADR-0048 D4).
//!
//! It uses the same first fit and merging as [`FreeList`], with every size rounded up to pages. The range starts at a
//! page boundary, so every allocation does. The MMUs map virtual addresses to physical ones.
//!
//! ```
//! use cubeyard_memory::virtual_space::{DeviceVa, VirtualAllocator};
//! use cubeyard_memory::Bytes;
//!
//! let hbm_of_target_devices = Bytes::gib(2 * 16 * 48);
//! let mut space = VirtualAllocator::for_context(hbm_of_target_devices, None)?;
//! assert_eq!(space.page(), Bytes::kib(4));
//!
//! let first = space.allocate(Bytes::new(100))?;
//! let second = space.allocate(Bytes::new(5000))?;
//! assert_eq!((first, second), (DeviceVa::new(0x1_0000_0000), DeviceVa::new(0x1_0000_1000)));
//! assert_eq!(space.used(), Bytes::kib(12));
//!
//! space.free(first, Bytes::new(100))?;
//! space.free(second, Bytes::new(5000))?;
//! assert_eq!(space.largest(), hbm_of_target_devices);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod spec;

pub use spec::{VirtualSpec, VirtualSpecError};

use crate::Bytes;
pub use crate::address::DeviceVa;
pub use crate::free_list::{AllocateError, FreeError};
use crate::free_list::{FreeCause, FreeList, Space};
use crate::index::Hole;

/// The free pages of a range of virtual addresses. See the [module](self).
#[derive(Clone, Debug)]
pub struct VirtualAllocator {
    base: DeviceVa,
    page: Bytes,
    /// Free list of offsets from `base`; all offsets and sizes are multiples of `page`.
    list: FreeList,
}

impl VirtualAllocator {
    /// Creates a range in pages of 2 MiB, with trusted frees.
    pub fn new(base: DeviceVa, size: Bytes) -> Result<Self, VirtualSpecError> {
        Self::from_spec(VirtualSpec::new(base, size))
    }

    /// Creates the range of a context whose target devices have `hbm` bytes in total; `page` is the topology's
    /// `pe_mmu.page_size`. See [`VirtualSpec::for_context`].
    pub fn for_context(hbm: Bytes, page: Option<Bytes>) -> Result<Self, VirtualSpecError> {
        Self::from_spec(VirtualSpec::for_context(hbm, page))
    }

    /// Creates the range that `spec` describes, all free.
    pub fn from_spec(spec: VirtualSpec) -> Result<Self, VirtualSpecError> {
        spec.check()?;
        let VirtualSpec { base, size, page, checking } = spec;
        let list = FreeList::of(Space::Virtual(base), size, checking);
        Ok(Self { base, page, list })
    }

    /// Returns the first address of the range.
    pub fn base(&self) -> DeviceVa {
        self.base
    }

    /// Returns the size of a page.
    pub fn page(&self) -> Bytes {
        self.page
    }

    /// Returns the length of the range.
    pub fn capacity(&self) -> Bytes {
        self.list.capacity()
    }

    /// Returns the number of allocated bytes, in whole pages.
    pub fn used(&self) -> Bytes {
        self.list.used()
    }

    /// Returns the length of the longest free range.
    pub fn largest(&self) -> Bytes {
        self.list.largest()
    }

    /// Returns the free ranges in address order, as offsets from [`base`](Self::base).
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        self.list.holes()
    }

    /// Allocates the number of pages needed for `bytes`, by first fit.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<DeviceVa, AllocateError> {
        let offset = self.list.allocate_rounded(bytes, self.pages(bytes))?;
        Ok(self.base.checked_add(offset).expect("the end of the range was checked"))
    }

    /// Frees the pages of `bytes`, starting at `va`.
    pub fn free(&mut self, va: DeviceVa, bytes: Bytes) -> Result<(), FreeError> {
        let page = self.page;
        let offset = va.to_bits().checked_sub(self.base.to_bits()).map(Bytes::new);
        let offset = offset.ok_or_else(|| self.list.refused(FreeCause::Below { va }))?;
        if !offset.is_aligned(page) {
            return Err(self.list.refused(FreeCause::InsidePage { va, page }));
        }
        self.list.free(offset, self.pages(bytes))
    }

    /// Rounds `bytes` up to pages. [`Bytes::MAX`] stands for results beyond 64 bits: no range is that long, since a
    /// range has whole pages, and a page of one byte needs no rounding.
    fn pages(&self, bytes: Bytes) -> Bytes {
        bytes.align_up(self.page).unwrap_or(Bytes::MAX)
    }
}
