//! Placements of the blocks of a device.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cubeyard_device::shared_memory::BlockParts;

/// Parts of the blocks that are placed other than by pages, by the pointer to their first byte.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    pub(crate) parts: Arc<Mutex<BTreeMap<u64, Arc<BlockParts>>>>,
    /// Whether freed blocks are forgotten.
    pub(crate) watched: OnceLock<()>,
}

/// Locks a value, which is whole even if a thread panicked with it.
pub(crate) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
