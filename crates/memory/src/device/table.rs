//! The firmware's table of a virtual function: the physical addresses of its regions.

use std::collections::BTreeMap;

use super::RegionId;

/// Number of entries of a firmware's table, and of free ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Number of entries.
    pub entries: usize,
    /// Number of entries without a region.
    pub free: usize,
}

/// The firmware's table of a virtual function: the physical address of each region by its index,
/// which is the region's id.
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
    /// Makes a table of `entries` entries, all of them free.
    pub fn new(entries: usize) -> Self {
        Self { entries, addresses: BTreeMap::new() }
    }

    /// Enters a region that begins at `physical_address` under the lowest free index; `None` where
    /// there is no free entry.
    pub fn insert(&mut self, physical_address: u64) -> Option<RegionId> {
        let index = (0..self.entries as u64).find(|index| !self.addresses.contains_key(index))?;
        self.addresses.insert(index, physical_address);
        Some(RegionId::new(index))
    }

    /// Clears the entry of a region and returns the physical address that it had.
    pub fn remove(&mut self, region: RegionId) -> Option<u64> {
        self.addresses.remove(&region.get())
    }

    /// Returns the physical address of a region's start, or `None` for an entry that is free.
    pub fn physical_address(&self, region: RegionId) -> Option<u64> {
        self.addresses.get(&region.get()).copied()
    }

    /// Returns the number of entries, and of free ones.
    pub fn info(&self) -> TableInfo {
        TableInfo { entries: self.entries, free: self.entries - self.addresses.len() }
    }
}
