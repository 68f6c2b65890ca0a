//! The firmware's table of a virtual function: the physical addresses of its regions.

use std::collections::BTreeMap;

use super::RegionId;

/// Number of entries in a firmware's table, and how many are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Number of entries.
    pub entries: usize,
    /// Number of entries without a region.
    pub free: usize,
}

/// The firmware's table of a virtual function: the physical address of each region. The index of an entry is the
/// region's id.
///
/// ```
/// use cubeyard_memory::device::FirmwareTable;
///
/// let mut table = FirmwareTable::new(2);
/// let first = table.insert(0x4000_0000).unwrap();
/// let second = table.insert(0x8000_0000).unwrap();
/// assert!(table.insert(0xc000_0000).is_none(), "there are two entries");
/// assert_eq!(table.physical_address(second), Some(0x8000_0000));
/// table.remove(first);
/// assert_eq!(table.info().free, 1);
/// ```
#[derive(Clone, Debug)]
pub struct FirmwareTable {
    entries: usize,
    addresses: BTreeMap<u64, u64>,
}

impl FirmwareTable {
    /// Creates a table of `entries` free entries.
    pub fn new(entries: usize) -> Self {
        Self { entries, addresses: BTreeMap::new() }
    }

    /// Enters a region that starts at `physical_address` at the lowest free index; returns `None` if no entry is free.
    pub fn insert(&mut self, physical_address: u64) -> Option<RegionId> {
        let index = (0..self.entries as u64).find(|index| !self.addresses.contains_key(index))?;
        self.addresses.insert(index, physical_address);
        Some(RegionId::new(index))
    }

    /// Clears the entry of a region and returns the region's physical address.
    pub fn remove(&mut self, region: RegionId) -> Option<u64> {
        self.addresses.remove(&region.get())
    }

    /// Returns the physical address of a region's start, or `None` for a free entry.
    pub fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.addresses.get(&region.get()).copied()
    }

    /// Returns the number of entries and the number of free entries.
    pub fn info(&self) -> TableInfo {
        TableInfo { entries: self.entries, free: self.entries - self.addresses.len() }
    }
}
