//! `VirtualAllocator`: whole pages of a device-wide range of virtual addresses (ADR-0048 D4).
//!
//! It is the same first fit and joining as [`FreeList`] has, with every size rounded up to pages; since
//! the range starts at a page, so does whatever is allocated. What a virtual address stands for is
//! known to the MMUs, not here.
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

use std::fmt;

use crate::Bytes;
use crate::free_list::{self, Exact, FreeList, Shortage};
use crate::index::Hole;

/// A virtual address that all PEs of a context agree on.
///
/// (Not the Flex family's `VirtualAddress`, which is a region and an offset in it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceVa(u64);

impl DeviceVa {
    /// The address `bits`.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bare address.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The address `by` further on, as for a shard of a tensor, unless that leaves 64 bits.
    #[must_use]
    pub const fn checked_add(self, by: Bytes) -> Option<Self> {
        match self.0.checked_add(by.get()) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }
}

impl fmt::Display for DeviceVa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "va {:#x}", self.0)
    }
}

/// Why no pages were allocated; none were at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocateError {
    /// No bytes were asked for. Never succeeds; ask for what is needed.
    #[error("virtual space: an allocation of 0 bytes has no address")]
    ZeroBytes,
    /// No free range is long enough. What helps depends on the [kind](Shortage::kind).
    #[error("virtual space: asked for {}, in pages of {page}: {shortage}", Exact(*asked))]
    NoRoom {
        /// How much was asked for. `shortage.wanted` is this rounded up to pages, or [`Bytes::MAX`]
        /// where that leaves 64 bits.
        asked: Bytes,
        /// The size of a page.
        page: Bytes,
        /// What was wanted and what there was.
        shortage: Shortage,
    },
}

/// Why no pages were freed. Nothing has changed and the space can be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreeError {
    /// The address is below the range.
    #[error("virtual space: {va} is below the range, which starts at {base}")]
    Below {
        /// The address given.
        va: DeviceVa,
        /// Where the range starts.
        base: DeviceVa,
    },
    /// The address is inside a page; allocations start with a page.
    #[error("virtual space: {va} is not the start of a page of {page}")]
    InsidePage {
        /// The address given.
        va: DeviceVa,
        /// The size of a page.
        page: Bytes,
    },
    /// The range cannot be freed. Its offsets count from `base`.
    #[error("virtual space from {base}: {cause}")]
    Refused {
        /// Where the range of the space starts.
        base: DeviceVa,
        /// What was wrong.
        cause: free_list::FreeError,
    },
}

/// The free pages of a range of virtual addresses. See the [module](self).
#[derive(Clone, Debug)]
pub struct VirtualAllocator {
    base: DeviceVa,
    page: Bytes,
    /// Offsets from `base`; all of them and all sizes are multiples of `page`.
    list: FreeList,
}

impl VirtualAllocator {
    /// A range of its own, in pages of 2 MiB, with trusted frees.
    pub fn new(base: DeviceVa, size: Bytes) -> Result<Self, VirtualSpecError> {
        Self::from_spec(VirtualSpec::new(base, size))
    }

    /// The range of a context whose target devices have `hbm` together; `page` is the topology's
    /// `pe_mmu.page_size`. See [`VirtualSpec::for_context`].
    pub fn for_context(hbm: Bytes, page: Option<Bytes>) -> Result<Self, VirtualSpecError> {
        Self::from_spec(VirtualSpec::for_context(hbm, page))
    }

    /// The range that `spec` describes, all free.
    pub fn from_spec(spec: VirtualSpec) -> Result<Self, VirtualSpecError> {
        spec.check()?;
        let list = FreeList::new(spec.size, spec.checking);
        Ok(Self { base: spec.base, page: spec.page, list })
    }

    /// Where the range starts.
    pub fn base(&self) -> DeviceVa {
        self.base
    }

    /// The size of a page.
    pub fn page(&self) -> Bytes {
        self.page
    }

    /// How long the range is.
    pub fn capacity(&self) -> Bytes {
        self.list.capacity()
    }

    /// How much of it is allocated, in whole pages.
    pub fn used(&self) -> Bytes {
        self.list.used()
    }

    /// The longest free range.
    pub fn largest(&self) -> Bytes {
        self.list.largest()
    }

    /// The free ranges in address order, as offsets from [`base`](Self::base).
    pub fn holes(&self) -> impl Iterator<Item = Hole> + '_ {
        self.list.holes()
    }

    /// Takes as many pages as hold `bytes`, by first fit.
    pub fn allocate(&mut self, bytes: Bytes) -> Result<DeviceVa, AllocateError> {
        match self.list.allocate(self.pages(bytes)) {
            Ok(offset) => Ok(DeviceVa(self.base.0 + offset.get())),
            Err(free_list::AllocateError::ZeroBytes) => Err(AllocateError::ZeroBytes),
            Err(free_list::AllocateError::NoRoom(shortage)) => {
                Err(AllocateError::NoRoom { asked: bytes, page: self.page, shortage })
            }
        }
    }

    /// Gives as many pages back as hold `bytes`, from `va` on.
    pub fn free(&mut self, va: DeviceVa, bytes: Bytes) -> Result<(), FreeError> {
        let (base, page) = (self.base, self.page);
        let offset = va.0.checked_sub(base.0).map(Bytes::new);
        let offset = offset.ok_or(FreeError::Below { va, base })?;
        if !offset.is_aligned(page) {
            return Err(FreeError::InsidePage { va, page });
        }
        let pages = self.pages(bytes);
        self.list.free(offset, pages).map_err(|cause| FreeError::Refused { base, cause })
    }

    /// `bytes` rounded up to pages. The highest number stands for what does not fit 64 bits: no
    /// range is that long, for a range is in whole pages, and a page of one byte rounds nothing up.
    fn pages(&self, bytes: Bytes) -> Bytes {
        bytes.align_up(self.page).unwrap_or(Bytes::MAX)
    }
}
