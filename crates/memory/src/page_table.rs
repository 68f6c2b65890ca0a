//! Page tables: mappings of virtual address ranges to physical ones.
//!
//! A mapping may have any length and start anywhere, so several shards smaller than a page fit into one page. Ranges
//! are stored as mapped, not page by page: a mapping of gigabytes costs the same as one of bytes.
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
    /// Mappings by first virtual address.
    ranges: BTreeMap<u64, MappedRange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedRange {
    bytes: u64,
    to: u64,
}

/// A failed `map` or `unmap`. The table is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// Part of the range is already mapped. Unmap that mapping first.
    #[error("{bytes} from {from:#x} overlap the mapping at {at:#x}")]
    Overlap {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
        /// First address of the existing mapping.
        at: u64,
    },
    /// The range is empty, ends beyond 64 bits, or maps to invalid physical addresses.
    #[error("{bytes} from {from:#x} to {to} are not a valid range")]
    NoRange {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
        /// Physical address given.
        to: PhysAddr,
    },
    /// The range is not exactly one mapping. Unmap a range as it was mapped.
    #[error("{bytes} from {from:#x} are not mapped as one range")]
    NotMapped {
        /// First virtual address.
        from: u64,
        /// Length of the range.
        bytes: Bytes,
    },
}

impl PageTable {
    /// Maps `bytes` at virtual address `from` to physical address `to`.
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

    /// Removes a mapping; `from` and `bytes` are as passed to [`map`](Self::map).
    pub fn unmap(&mut self, from: u64, bytes: Bytes) -> Result<(), MapError> {
        match self.ranges.get(&from) {
            Some(range) if range.bytes == bytes.get() => {
                self.ranges.remove(&from);
                Ok(())
            }
            _ => Err(MapError::NotMapped { from, bytes }),
        }
    }

    /// Translates a virtual address; also returns the number of bytes mapped from there.
    pub fn translate(&self, address: u64) -> Option<(PhysAddr, Bytes)> {
        let (from, bytes, to) = self.mapping(address)?;
        let into = address - from;
        let to = PhysAddr::from_bits(to.to_bits() + into).expect("checked when it was mapped");
        Some((to, bytes - Bytes::new(into)))
    }

    /// Returns the mapping of an address: its first virtual address, its length and its physical address.
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
