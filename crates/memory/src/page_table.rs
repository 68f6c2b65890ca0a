//! What virtual addresses mean: ranges of them, each with the physical address it stands for.
//!
//! A mapping has any length and begins anywhere, so shards that are smaller than a page stand side by
//! side in one page without overwriting each other. Ranges are kept as they are mapped, not page by page:
//! a mapping of gigabytes costs as much as one of bytes.
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
    /// By the first address of each.
    ranges: BTreeMap<u64, Range>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    bytes: u64,
    to: u64,
}

/// Why a mapping was not made or taken away. The table is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// Part of it is mapped already. Unmap that first.
    #[error("{bytes} from {from:#x} overlap what is mapped at {at:#x}")]
    Overlap {
        /// The first address.
        from: u64,
        /// How much.
        bytes: Bytes,
        /// Where the mapping that is there begins.
        at: u64,
    },
    /// No bytes, or an end beyond 64 bits, or physical addresses that mean nothing.
    #[error("{bytes} from {from:#x} to {to} are no range")]
    NoRange {
        /// The first address.
        from: u64,
        /// How much.
        bytes: Bytes,
        /// Where it should lead.
        to: PhysAddr,
    },
    /// It is not what was mapped: a range is unmapped as it was mapped.
    #[error("{bytes} from {from:#x} are not mapped as one range")]
    NotMapped {
        /// The first address.
        from: u64,
        /// How much.
        bytes: Bytes,
    },
}

impl PageTable {
    /// Lets `bytes` from virtual address `from` on mean what lies at `to`.
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
        self.ranges.insert(from, Range { bytes: bytes.get(), to: to.to_bits() });
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

    /// What a virtual address means, and for how many bytes from there on.
    pub fn translate(&self, address: u64) -> Option<(PhysAddr, Bytes)> {
        let (from, bytes, to) = self.mapping(address)?;
        let into = address - from;
        let to = PhysAddr::from_bits(to.to_bits() + into).expect("checked when it was mapped");
        Some((to, bytes - Bytes::new(into)))
    }

    /// The mapping that an address is in: its first address, its length, and what the first address means.
    pub fn mapping(&self, address: u64) -> Option<(u64, Bytes, PhysAddr)> {
        let (&from, range) = self.ranges.range(..=address).next_back()?;
        let to = PhysAddr::from_bits(range.to).expect("checked when it was mapped");
        (address - from < range.bytes).then_some((from, Bytes::new(range.bytes), to))
    }

    /// How many mappings there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}
