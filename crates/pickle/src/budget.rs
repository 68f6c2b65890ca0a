//! A memory budget for readers, charged before memory is allocated.

use thiserror::Error;

use cubeyard_units::Bytes;

/// Heap overhead of an allocation, and of each map entry, in bytes.
const OVERHEAD: usize = 16;

/// Reading would need more memory than the caller allows. Raise the limit, or read less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("reading this input needs more than the memory limit of {limit}")]
pub struct MemoryLimit {
    /// The limit set by the caller.
    pub limit: Bytes,
}

/// Memory left to a reader.
///
/// A reader of untrusted input charges each table before it grows, so that no input uses more memory than the limit.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: Bytes,
    left: u64,
}

impl Budget {
    /// Creates a budget of `limit`, of which `held` bytes are already used.
    pub fn new(limit: Bytes, held: usize) -> Result<Self, MemoryLimit> {
        let mut budget = Self { limit, left: limit.get() };
        budget.charge(held)?;
        Ok(budget)
    }

    /// Returns the number of bytes left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Creates a budget for one stage of the work: the remainder of this one, but at most `most` bytes.
    #[must_use]
    pub fn stage(&self, most: u64) -> Self {
        Self { limit: self.limit, left: self.left.min(most) }
    }

    /// Charges `bytes` to the budget.
    pub fn charge(&mut self, bytes: usize) -> Result<(), MemoryLimit> {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.ok_or(MemoryLimit { limit: self.limit })?;
        Ok(())
    }

    /// Returns bytes that were charged before.
    pub fn release(&mut self, bytes: usize) {
        self.left += bytes as u64;
    }

    /// Makes room for `more` items, charging both tables while items move. Tables grow by doubling.
    pub fn reserve<T>(&mut self, table: &mut Vec<T>, more: usize) -> Result<(), MemoryLimit> {
        let (held, needed) = (table.capacity(), table.len().saturating_add(more));
        if needed <= held {
            return Ok(());
        }
        let capacity = needed.max(held.saturating_mul(2)).max(4);
        self.charge(capacity.saturating_mul(size_of::<T>()).saturating_add(OVERHEAD))?;
        table.reserve_exact(capacity - table.len());
        if held > 0 {
            self.release(held * size_of::<T>() + OVERHEAD);
        }
        Ok(())
    }

    /// Appends an item to a table.
    #[inline]
    pub fn push<T>(&mut self, table: &mut Vec<T>, item: T) -> Result<(), MemoryLimit> {
        if table.len() == table.capacity() {
            self.reserve(table, 1)?;
        }
        table.push(item);
        Ok(())
    }

    /// Charges a table of `count` items that is allocated at once.
    pub fn charge_table<T>(&mut self, count: usize) -> Result<(), MemoryLimit> {
        self.charge(count.saturating_mul(size_of::<T>()).saturating_add(OVERHEAD))
    }
}

/// Returns the maximum memory of a `BTreeMap` entry, in bytes: nodes are at least half full.
pub const fn map_entry<K, V>() -> usize {
    2 * (size_of::<K>() + size_of::<V>()) + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_charged_before_it_grows_and_while_it_moves() {
        let mut budget = Budget::new(Bytes::new(100), 4).unwrap();
        let mut table: Vec<u64> = Vec::new();
        (0..4).for_each(|item| budget.push(&mut table, item).unwrap());
        assert_eq!(budget.left(), 100 - 4 - (4 * 8 + 16));
        // Eight items would fit, but not together with the four that are being moved.
        assert_eq!(budget.push(&mut table, 4), Err(MemoryLimit { limit: Bytes::new(100) }));
        assert_eq!((table.len(), budget.left()), (4, 48));
        let mut budget = Budget::new(Bytes::new(200), 4).unwrap();
        let mut table: Vec<u64> = Vec::new();
        (0..5).for_each(|item| budget.push(&mut table, item).unwrap());
        assert_eq!((table.capacity(), budget.left()), (8, 200 - 4 - (8 * 8 + 16)));
    }

    #[test]
    fn the_limit_can_be_used_up_exactly_and_no_count_overflows() {
        let mut budget = Budget::new(Bytes::new(80), 0).unwrap();
        budget.charge(80).unwrap();
        assert!(budget.charge(1).is_err());
        budget.release(80);
        assert!(budget.charge_table::<u64>(usize::MAX).is_err());
        assert!(budget.reserve(&mut vec![0_u64], usize::MAX).is_err());
        assert!(Budget::new(Bytes::new(80), 81).is_err());
    }
}
