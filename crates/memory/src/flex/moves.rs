//! Forwarding of blocks that compaction has moved: a handle keeps naming the place of its allocation.

use std::collections::BTreeMap;

use crate::index::BlockKey;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// The number of a slot, and a block's key there.
pub(crate) type SlotKey = (usize, BlockKey);

/// Places (`T`) of the moved blocks of an allocator that are live.
#[derive(Debug)]
pub(crate) struct Moves<T> {
    table: Mutex<Table<T>>,
    /// Number of entries, read without the lock.
    len: AtomicUsize,
}

#[derive(Debug)]
struct Table<T> {
    /// Present place of a block, by the place that its handle names.
    forward: BTreeMap<SlotKey, T>,
    /// Place that the handle names, by the block's present place.
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

    /// Notes that the block at `from` has moved to `place`, which is `to`.
    pub(crate) fn insert(&self, from: SlotKey, to: SlotKey, place: T) {
        let mut table = lock(&self.table);
        let handle = table.back.remove(&from).unwrap_or(from);
        table.back.insert(to, handle);
        table.forward.insert(handle, place);
        self.len.store(table.forward.len(), Ordering::Release);
    }

    /// Removes a handle's block, which is being freed, and returns its present place.
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

    /// Removes the block at its present place `at`, and returns that place for the caller to drop with
    /// no lock held.
    pub(crate) fn remove_at(&self, at: SlotKey) -> Option<T> {
        let mut table = lock(&self.table);
        let handle = table.back.remove(&at)?;
        let place = table.forward.remove(&handle);
        self.len.store(table.forward.len(), Ordering::Release);
        place
    }
}
