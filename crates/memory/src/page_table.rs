//! Page tables: mappings of ranges of virtual addresses to physical ones.
//!
//! A mapping has any length and begins anywhere, so several shards that are smaller than a page fit
//! into one. Ranges are kept as they are mapped, not page by page: a mapping of gigabytes costs as
//! much as one of bytes.
//!
//! ```
//! use cubeyard_memory::Bytes;
//! use cubeyard_memory::address::PhysAddr;
//! use cubeyard_memory::page_table::PageTable;
//!
//! let at = |bits| PhysAddr::from_bits(bits).unwrap();
//! let mut table = PageTable::default();
//! table.map(0x1_0000, Bytes::new(100), at(0x8000))?;
//! table.map(0x1_0064, Bytes::new(100), at(0x2000))?;
//! assert_eq!(table.translate(0x1_0000 + 99), Some((at(0x8000 + 99), Bytes::new(1))));
//! assert_eq!(table.translate(0x1_0064), Some((at(0x2000), Bytes::new(100))));
//! assert_eq!(table.mapping(0x1_0064 + 99), Some((0x1_0064, Bytes::new(100), at(0x2000))));
//! assert_eq!(table.mapping(0x1_0064 + 100), None);
//! assert!(table.map(0x1_00c7, Bytes::new(1), at(0)).is_err());
//! # Ok::<(), cubeyard_memory::page_table::MapError>(())
//! ```

use std::collections::BTreeMap;

use thiserror::Error;

use crate::Bytes;
use crate::address::PhysAddr;

/// Mappings of virtual addresses. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageTable {
    /// Mappings by their first addresses.
    ranges: BTreeMap<u64, MappedRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedRange {
    bytes: u64,
    to: u64,
}

/// A mapping that was not made or removed. The table is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// Part of it is mapped already. Unmap that first.
    #[error("{bytes} from {from:#x} overlap what is mapped at {at:#x}")]
    Overlap {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
        /// First address of the mapping that exists.
        at: u64,
    },
    /// No bytes, or an end beyond 64 bits, or physical addresses that mean nothing.
    #[error("{bytes} from {from:#x} to {to} are no range")]
    NoRange {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
        /// Physical address given.
        to: PhysAddr,
    },
    /// The range is not one mapping: a range is unmapped as it was mapped.
    #[error("{bytes} from {from:#x} are not mapped as one range")]
    NotMapped {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
    },
}

impl PageTable {
    /// Maps `bytes` from virtual address `from` on to `to`.
    pub fn map(&mut self, from: u64, bytes: Bytes, to: PhysAddr) -> Result<(), MapError> {
        let no_range = MapError::NoRange { from, bytes, to };
        let last = bytes.get().checked_sub(1).ok_or(no_range)?;
        let end = from.checked_add(last).ok_or(no_range)?;
        let last_to = to.to_bits().checked_add(last).ok_or(no_range)?;
        PhysAddr::from_bits(last_to).map_err(|_| no_range)?;
        if let Some((&at, _)) = self
            .ranges
            .range(..=end)
            .next_back()
            .filter(|(at, range)| at.saturating_add(range.bytes - 1) >= from)
        {
            return Err(MapError::Overlap { from, bytes, at });
        }
        self.ranges.insert(from, MappedRange { bytes: bytes.get(), to: to.to_bits() });
        Ok(())
    }

    /// Takes a mapping away, as it was made.
    pub fn unmap(&mut self, from: u64, bytes: Bytes) -> Result<(), MapError> {
        match self.ranges.get(&from) {
            Some(range) if range.bytes == bytes.get() => {
                self.ranges.remove(&from);
                Ok(())
            }
            _ => Err(MapError::NotMapped { from, bytes }),
        }
    }

    /// Translates a virtual address; returns also how many bytes are mapped from there on.
    pub fn translate(&self, address: u64) -> Option<(PhysAddr, Bytes)> {
        let (from, bytes, to) = self.mapping(address)?;
        let into = address - from;
        let to = PhysAddr::from_bits(to.to_bits() + into).expect("checked when it was mapped");
        Some((to, bytes - Bytes::new(into)))
    }

    /// Returns the mapping of an address: its first address, its length and its physical address.
    pub fn mapping(&self, address: u64) -> Option<(u64, Bytes, PhysAddr)> {
        let (&from, range) = self.ranges.range(..=address).next_back()?;
        let to = PhysAddr::from_bits(range.to).expect("checked when it was mapped");
        (address - from < range.bytes).then_some((from, Bytes::new(range.bytes), to))
    }

    /// Returns the number of mappings.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}
