//! Addresses of made-up storages.

/// First address of the first storage.
const FIRST: u64 = 0x1000_0000_0000;

/// Distance of storages.
pub(crate) const APART: u64 = 1 << 40;

/// Returns the first address of a storage.
pub(crate) fn address(number: usize) -> u64 {
    FIRST + number as u64 * APART
}

/// Returns the first address of the storage of an address.
pub(crate) fn storage_of(address: u64) -> u64 {
    FIRST + (address - FIRST) / APART * APART
}
