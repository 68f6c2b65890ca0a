//! Forwarding of blocks that compaction has moved: a handle keeps naming the original place of its block.

use std::collections::BTreeMap;

use crate::index::BlockKey;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// Number of a slot, and the key of a block in it.
pub(crate) type SlotKey = (usize, BlockKey);

/// Current places (`T`) of the live blocks that compaction has moved.
#[derive(Debug)]
pub(crate) struct Moves<T> {
    table: Mutex<Table<T>>,
    /// Number of entries; read without the lock.
    len: AtomicUsize,
}

#[derive(Debug)]
struct Table<T> {
    /// Current place of a block, by the place that its handle names.
    forward: BTreeMap<SlotKey, T>,
    /// Place that the handle names, by the block's current place.
    back: BTreeMap<SlotKey, SlotKey>,
}

impl<T: Clone> Moves<T> {
    pub(crate) fn new() -> Self {
        let table = Table { forward: BTreeMap::new(), back: BTreeMap::new() };
        Self { table: Mutex::new(table), len: AtomicUsize::new(0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    pub(crate) fn get(&self, handle: SlotKey) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        lock(&self.table).forward.get(&handle).cloned()
    }

    pub(crate) fn contains(&self, handle: SlotKey) -> bool {
        !self.is_empty() && lock(&self.table).forward.contains_key(&handle)
    }

    pub(crate) fn all(&self) -> Vec<T> {
        lock(&self.table).forward.values().cloned().collect()
    }

    /// Records that the block at `from` has moved to `place`, whose key is `to`.
    pub(crate) fn insert(&self, from: SlotKey, to: SlotKey, place: T) {
        let mut table = lock(&self.table);
        let handle = table.back.remove(&from).unwrap_or(from);
        table.back.insert(to, handle);
        table.forward.insert(handle, place);
        self.len.store(table.forward.len(), Ordering::Release);
    }

    /// Removes the block of a handle, which is being freed, and returns its current place.
    pub(crate) fn remove(&self, handle: SlotKey, key: impl Fn(&T) -> SlotKey) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut table = lock(&self.table);
        let place = table.forward.remove(&handle)?;
        table.back.remove(&key(&place));
        self.len.store(table.forward.len(), Ordering::Release);
        Some(place)
    }

    /// Removes the block whose current place is `at`. Returns the entry, so that the caller drops it with no lock held.
    pub(crate) fn remove_at(&self, at: SlotKey) -> Option<T> {
        let mut table = lock(&self.table);
        let handle = table.back.remove(&at)?;
        let place = table.forward.remove(&handle);
        self.len.store(table.forward.len(), Ordering::Release);
        place
    }
}
